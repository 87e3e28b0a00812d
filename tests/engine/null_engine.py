"""The filling that computes nothing: right shapes, zero values, no time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from partita.engine.base import Blob
from partita.engine.ort import check_graph
from partita.errors import RunError
from partita.program import TensorSpec
from partita.regions import Array


class NullEngine:
    """Makes runners that answer with zeros, to measure and test all that is not computing."""

    def load(self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True) -> NullRunner:
        """A runner with the fragment's inputs and outputs; the same refusals apply."""
        facts = check_graph(graph, blobs, None)
        return NullRunner(tuple(facts.inputs), tuple(facts.outputs))


class NullRunner:
    """Answers with zeros; see :class:`partita.engine.Runner`."""

    def __init__(self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.providers: tuple[str, ...] = ()

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Zeros of the outputs' shapes and types.

        Raises:
            RunError: An input has another shape than the fragment takes.
        """
        for spec, array in zip(self.inputs, arrays, strict=True):
            if array.shape != spec.shape:
                raise RunError(
                    f"Input {spec.name!r} has shape {array.shape}: {spec.shape} is needed."
                )
        return [np.zeros(spec.shape, spec.dtype) for spec in self.outputs]
