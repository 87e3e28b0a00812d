"""Modules of PyTorch answer as the engine does, from whatever their weights are read."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from partita.errors import BundleError
from partita.reproduce.loading.bench import variants
from partita.zoo import build_model

torch = pytest.importorskip("torch")


@pytest.mark.slow
def test_pixels_that_become_channels(tmp_path: Path) -> None:
    """The low-light network packs pixels, has slopes, and unpacks: as the engine does.

    Two children hold a part of the weights each; read in turn, each has its seconds.
    """
    from partita.reproduce.loading.bench.eager import load_network

    model = build_model("lowlight_resnet", size=32)
    feeds = {"input": np.random.default_rng(2).standard_normal((1, 3, 32, 32), np.float32)}
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    variants.ship_torch(model, tmp_path, 1, ("pack", "block9"))
    loads: dict[str, Callable[[Path], Any]] = {
        "whole": load_network,
        "mapped": lambda home: load_network(home, mmap=True),
        "children": lambda home: load_network(home, children=2),
        "in turn": lambda home: load_network(home, children=2, in_turn=True),
    }
    if find_spec("safetensors"):
        loads["safetensors"] = lambda home: load_network(home, safetensors=True)
    for name, load in loads.items():
        network = load(tmp_path / "torch")
        (found,) = network.run(None, feeds)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=name)
        assert len(network.parts_s) == (2 if name in ("children", "in turn") else 1)
        assert all(one > 0 for one in network.parts_s)


def test_an_operator_without_a_module_is_named(tmp_path: Path) -> None:
    """Nothing is written of a model that PyTorch's modules here cannot express."""
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Erf", ["x"], ["y"])], "erf", values[:1], values[1:]
    )
    with pytest.raises(BundleError, match="Operator Erf has no module here"):
        variants.ship_torch(onnx.helper.make_model(graph), tmp_path, 1)
    assert not list((tmp_path / "torch").iterdir())
