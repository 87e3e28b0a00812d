"""The undivided network, run by ONNX Runtime: what every division must equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx

from partita.engine.session import SessionConfig, open_session
from partita.graph.graph import Graph
from partita.regions import Array

Arrays = Mapping[str, Array]

#: Weights of this many bytes are handed to the engine as they lie: no message holds 2 GB, and each
#: copy counts. Not tuned.
_LARGE_BYTES = 2**29


class WholeModel:
    """The undivided network in one ONNX Runtime session.

    Args:
        tensors: Inner tensors that are wanted besides the outputs.
    """

    def __init__(self, graph: Graph, tensors: Iterable[str] = ()) -> None:
        self._graph = graph
        self._tensors = sorted(set(tensors) - set(graph.outputs) - set(graph.inputs))
        self._session = self._open()
        self.names = [value.name for value in self._session.get_outputs()]

    def _open(self) -> Any:
        weights: dict[str, Array] | None = {} if self._is_large else None
        model = self._graph.to_model(weights, self._tensors)
        for tensor in self._tensors:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
        return open_model(model, weights, integer=self._graph.integer)

    @property
    def _is_large(self) -> bool:
        return self._graph.weight_bytes >= _LARGE_BYTES

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """The outputs and wanted inner tensors by name."""
        if self._session is None:
            self._session = self._open()
        feeds = {name: inputs[name] for name in self._graph.inputs}
        return dict(zip(self.names, self._session.run(None, feeds), strict=True))

    def release(self) -> None:
        """Free the session of a large network; the next run opens another."""
        if self._is_large:
            self._session = None


def open_model(
    model: onnx.ModelProto, weights: dict[str, Array] | None = None, *, integer: bool = False
) -> Any:
    """A session of a model in memory.

    Args:
        weights: Bytes of the weights that lie apart. They are prepacked by nobody then: that would
            hold them twice.
        integer: Whether its quantised layers run on integer kernels.
    """
    config = SessionConfig(prepack=weights is None, integer_kernels=integer)
    return open_session(model.SerializeToString(), config, weights)
