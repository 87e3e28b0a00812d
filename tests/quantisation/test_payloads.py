"""How long compressed payloads are, as samples show; and pictures of bytes as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from partita.graph.whole import WholeModel
from partita.quantisation import choose_bits, collect_ranges, measure_shares, quantize
from partita.regions import Packing, encode_array, most_bytes
from tests.quantisation.networks import draw_samples, small_graph


@pytest.mark.parametrize("wire", ["zlib", "jpeg60"])
def test_shares_are_means_over_samples(wire: str) -> None:
    """Of what a layer with a ReLU makes, and of the input, counted by hand."""
    graph, samples = small_graph(), draw_samples()
    name = graph.layer("first").outputs[0]
    shares = measure_shares(samples, graph, ["x", name], wire)
    spec, model = graph.tensors[name], WholeModel(graph, [name])
    sizes = [len(encode_array(model.run(feeds)[name], wire)) for feeds in samples]
    assert shares[name] == pytest.approx(np.mean(sizes) / most_bytes(spec.shape, spec.dtype, wire))
    assert 0 < shares[name] < 0.9
    assert shares["x"] <= 1


def test_quantised_tensors_are_compressed_as_codes() -> None:
    """What is compressed are the codes, of which few are used: a small part of their bytes."""
    graph, samples = small_graph(), draw_samples()
    bits = choose_bits(graph, collect_ranges(graph, samples), None, 8)
    name = graph.layer("first").outputs[0]
    coarse = {**bits, "first": bits["first"].__class__(activation=8, low=0.0, high=100.0)}
    fine, few = (
        measure_shares(samples, quantize(graph, table), [name], "zlib")[name]
        for table in (bits, coarse)
    )
    assert few < fine < 1


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_pictures_of_bytes_are_not_rounded(top: float) -> None:
    """The range is that of bytes, though samples hold a part of them: what is sent is exact."""
    graph, rng = small_graph(), np.random.default_rng(0)
    draw = lambda: rng.integers(30, 200, (1, 3, 16, 16)).astype(np.float32) * np.float32(top / 255)  # noqa: E731
    samples = [{"x": draw()} for _ in range(3)]
    entry = choose_bits(graph, collect_ranges(graph, samples), None, {"x": 8})["x"]
    assert (entry.low, entry.high) == (0.0, top)
    scale = np.asarray(np.float32(top / 255))
    packing = Packing(8, None, scale, np.asarray(0, np.int32), signed=False)
    np.testing.assert_allclose(packing.round(samples[0]["x"]), samples[0]["x"], rtol=2e-7)
    other = [*samples, {"x": rng.random((1, 3, 16, 16), np.float32)}]
    entry = choose_bits(graph, collect_ranges(graph, other), None, {"x": 8})["x"]
    assert (entry.low, entry.high) != (0.0, top)
