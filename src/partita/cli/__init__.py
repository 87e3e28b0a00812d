"""The command line: ``partita <verb> <inputs> [--flags]``."""

from partita.cli.app import app, main, start

__all__ = ["app", "main", "start"]
