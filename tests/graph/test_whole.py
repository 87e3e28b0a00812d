"""The whole model, its weights in the message or apart from it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from partita.graph import load_graph, whole
from partita.graph.whole import WholeModel
from tests.models import make_model


def test_large_weights_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message holds 2 GB; what is handed over beside it answers the same, again and again."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 5, 5), np.float32), "b": np.ones(8, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    graph = load_graph(make_model(nodes, {"x": (1, 3, 9, 9)}, ["y"], weights))
    feeds = {"x": rng.standard_normal((1, 3, 9, 9), np.float32)}
    expected = WholeModel(graph, ["t"]).run(feeds)
    monkeypatch.setattr(whole, "_LARGE_BYTES", 1000)
    apart: dict[str, np.ndarray] = {}
    model = graph.to_model(apart)
    assert model.ByteSize() < 1000 < graph.weight_bytes
    assert np.shares_memory(*apart.values(), graph.constants["w"])
    large = WholeModel(graph, ["t"])
    for _ in range(2):
        answer = large.run(feeds)
        assert answer.keys() == expected.keys()
        for name, array in expected.items():
            assert np.allclose(answer[name], array, rtol=1e-6, atol=1e-6)
        large.release()
        assert large._session is None
