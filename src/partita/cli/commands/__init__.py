"""The verbs' flags and help texts; what they do is in :mod:`partita.cli.actions`.

These modules load for every call of the program, so they import nothing but flags and output.
"""
