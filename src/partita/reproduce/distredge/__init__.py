"""DistrEdge's Figures 4 to 14, one module per group."""

from partita.reproduce.distredge import draws, dynamic, partition, speed, traces, why

#: Importing a module registers its figures.
_GROUPS = (draws, dynamic, partition, speed, traces, why)
