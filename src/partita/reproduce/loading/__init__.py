"""Tables 1 to 3 of the paper on reinforcement-learned modularization for fast loading."""

from partita.reproduce.loading import engine, parts, pytorch

#: Importing a module registers its tables.
_GROUPS = (engine, parts, pytorch)
