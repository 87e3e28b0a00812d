"""DistrEdge: layer-volumes by LC-PSS, split by deep reinforcement learning (OSDS).

Source: Hou, Guan, Han and Zhang, "DistrEdge: Speeding up Convolutional Neural Network Inference on
Distributed Edge Devices", IPDPS 2022. What trains (``agent``, ``environment``, ``osds``, ``train``,
``online``) needs the ``train`` extra and is loaded when first used.
"""

from partita.planners.distredge import plan

__all__ = ["plan"]
