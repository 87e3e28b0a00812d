"""DistrEdge: layer-volumes by LC-PSS, split by deep reinforcement learning (OSDS)."""
