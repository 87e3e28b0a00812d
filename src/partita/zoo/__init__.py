"""Well-known networks built from their papers, weights from a seed, nothing downloaded."""

from partita.zoo.catalogue import ZOO, build_model, find_model, write_model

__all__ = ["ZOO", "build_model", "find_model", "write_model"]
