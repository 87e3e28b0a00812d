"""Well-known networks built from their papers, weights from a seed, nothing downloaded."""

from partita.zoo.builder import Builder
from partita.zoo.catalogue import ZOO, ZooEntry, build_model, write_model

__all__ = ["ZOO", "Builder", "ZooEntry", "build_model", "write_model"]
