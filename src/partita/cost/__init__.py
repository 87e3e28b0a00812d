"""Part of Partita."""
