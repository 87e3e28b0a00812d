"""Bundles of networks in fewer than 8 bits: weights lie packed, as in workers' stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.engine.packed import pack_narrow, unpack_blob
from partita.errors import BundleError
from partita.graph import Graph
from partita.graph.quantised import with_kernels
from partita.graph.whole import WholeModel
from partita.loading import load_bundle
from partita.quantisation import choose_bits, quantize
from tests.loading.bundles import ask, change_manifest, split
from tests.planners.edgecloud.cases import quantised_chain


def _quantised(bits: int) -> Graph:
    """Return 161 thousand weights of so many bits, on integer kernels."""
    graph, data = quantised_chain(8, 64, 256, 4, size=4)
    return with_kernels(quantize(graph, choose_bits(graph, data.ranges, bits, 8)), integer=True)


def _weights(folder: Path) -> int:
    return (folder / "s" / "weights.bin").stat().st_size


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("bits", [2, 3, 4, 6])
def test_packed_weights_are_smaller_and_answer_the_same(
    tmp_path: Path, bits: int, tuned: bool
) -> None:
    """The file has as many bits for each weight as the network; nothing else changes."""
    graph = _quantised(bits)
    folder = split(graph, tmp_path / "narrow", (2, len(graph.layers)), tuned=tuned)
    read = {name: graph.constants[name].size for name in graph.packings if name in graph.constants}
    codes = sum(size for name, size in read.items() if name in graph.code_constants)
    floats = sum(read.values()) - codes
    assert codes > 10 * floats  # the last layer's answer is not rounded
    filled = 4 if tuned else 1  # of its four channels blocks of sixteen are made
    assert _weights(folder) < codes * bits / 8 + filled * 4 * floats + 8 * 4096
    feeds = ask(graph)
    with load_bundle(folder) as session:
        (answer,) = session.run(None, feeds)
    expected = WholeModel(graph).run(feeds)[graph.outputs[0]]
    np.testing.assert_allclose(answer, expected, atol=1e-5 * np.abs(expected).max())


def test_bytes_stay_mapped(tmp_path: Path) -> None:
    """Of 8 bits nothing is packed: what is in the page cache is used where it lies."""
    graph = _quantised(8)
    folder = split(graph, tmp_path / "wide", (len(graph.layers),))
    with load_bundle(folder) as session:
        assert not any(child.packed for child in session.variant.children)


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.update(start=10**9),
        lambda weight: weight.update(size_bytes=weight["size_bytes"] - 1),
    ],
)
def test_packed_weights_that_are_not_there_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    """Outside of the child's part, or of another length: one line, no answer."""
    graph = _quantised(4)
    folder = split(graph, tmp_path / "bundle", (len(graph.layers),))
    change_manifest(folder, lambda scheme: change(scheme["children"][0]["packed"][0]))
    with pytest.raises(BundleError, match="packed"), load_bundle(folder) as session:
        session.run(None, ask(graph))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6])
def test_whole_numbers_that_few_bits_tell_apart(dtype: str, bits: int) -> None:
    """Any shape and least number; what takes all bits of a byte is left as it is."""
    rng = np.random.default_rng(bits)
    array = (rng.integers(0, 2**bits, (5, 3, 7)) + (-3 if dtype == "int8" else 9)).astype(dtype)
    array[0, 0, :2] = array.min(), array.min() + 2**bits - 1
    blob = pack_narrow(array)
    assert blob is not None
    assert blob.size < array.size or bits == 6
    np.testing.assert_array_equal(unpack_blob(blob, dtype), array.reshape(-1).view(np.uint8))
    assert pack_narrow(np.arange(65, dtype=dtype)) is None
    assert pack_narrow(array.astype(np.float32)) is None
