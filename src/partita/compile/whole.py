"""The undivided network, run by ONNX Runtime: what every division must equal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx

from partita.engine.session import open_session
from partita.graph import Graph
from partita.regions import Array

Arrays = Mapping[str, Array]


class WholeModel:
    """The undivided network in one ONNX Runtime session.

    Args:
        tensors: Inner tensors that are wanted besides the outputs.
    """

    def __init__(self, graph: Graph, tensors: Iterable[str] = ()) -> None:
        model = graph.to_model()
        wanted = set(tensors) - set(graph.outputs) - set(graph.inputs)
        for tensor in sorted(wanted):
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
        self._inputs = set(graph.inputs)
        self._session = open_model(model)
        self.names = [value.name for value in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """The outputs and wanted inner tensors by name."""
        feeds = {name: inputs[name] for name in self._inputs}
        return dict(zip(self.names, self._session.run(None, feeds), strict=True))


def open_model(model: onnx.ModelProto) -> Any:
    """A session of a model in memory, also of one too large to serialise in one piece."""
    if model.ByteSize() < 2**31 - 2**20:
        return open_session(model.SerializeToString())
    with tempfile.TemporaryDirectory(prefix="partita-whole-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save_model(model, path, save_as_external_data=True)
        return open_session(path)
