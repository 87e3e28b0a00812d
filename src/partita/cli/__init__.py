"""The command line: ``partita <verb> <inputs> [--flags]``."""

from partita.cli.app import app, main

__all__ = ["app", "main"]
