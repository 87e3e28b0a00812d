"""A camera with little memory and a thin uplink, a server with plenty: where to cut, in what bits.

Source: Banitalebi-Dehkordi et al., "AUTO-SPLIT: a general framework of collaborative edge-cloud AI"
(2021), and what it is compared with.
"""

from partita.planners.edgecloud import autosplit, neurosurgeon, one_side, qdmp, tiers

#: Importing a method registers it.
__all__ = ["autosplit", "neurosurgeon", "one_side", "qdmp", "tiers"]
