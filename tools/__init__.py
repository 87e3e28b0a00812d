"""Checks of the repository itself, run by `make check` and by the tests."""
