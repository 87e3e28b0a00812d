"""DistrEdge: layer-volumes by LC-PSS, split by deep reinforcement learning (OSDS).

Source: Hou, Guan, Han and Zhang, "DistrEdge: Speeding up Convolutional Neural Network Inference on
Distributed Edge Devices", IPDPS 2022. What trains (``agent``, ``environment``, ``osds``, ``train``,
``online``) needs the ``train`` extra and is loaded when first used.
"""

from partita.planners.distredge import plan
from partita.planners.distredge.lcpss import Partition, PartitionOptions, find_partition
from partita.planners.distredge.process import SplitProcess, find_process
from partita.planners.distredge.settings import PUBLISHED, REPAIRED, DistrEdgeSettings

__all__ = [
    "PUBLISHED",
    "REPAIRED",
    "DistrEdgeSettings",
    "Partition",
    "PartitionOptions",
    "SplitProcess",
    "find_partition",
    "find_process",
    "plan",
]
