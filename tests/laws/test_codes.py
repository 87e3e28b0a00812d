"""Quantised networks, divided: on integer kernels and on floats, with codes on the wire."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.compile import Compiled, compile_plan
from partita.engine.packed import split_location
from partita.exactness.compare import compare_pieces, is_lossy
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.graph.grids import find_grids
from partita.graph.quantised import with_kernels
from partita.graph.whole import WholeModel
from partita.regions import CODE_FORMATS
from tests.graph.test_read_quantised import draw_image
from tests.laws.random_plans import draw_cluster, draw_plan
from tests.laws.test_exactness import RANDOM
from tests.quantised_models import residual_network


@cache
def quantised_graph(integer: bool) -> Graph:
    """Return the residual network on integer kernels, or on floats that stand for the codes."""
    return with_kernels(load_graph(residual_network(seed=3)), integer=integer)


def draw_compiled(rng: Random, graph: Graph) -> Compiled:
    """Return a network divided at random."""
    cluster = draw_cluster(rng)
    return compile_plan(graph, draw_plan(rng, graph, cluster), cluster)


@pytest.mark.parametrize("integer", [True, False])
@settings(max_examples=25)
@given(rng=RANDOM, seed=st.integers(0, 99))
def test_divided_equals_whole_to_a_step(integer: bool, rng: Random, seed: int) -> None:
    """Every piece is the whole network's but for values between two steps, and those are few."""
    graph = quantised_graph(integer)
    compiled, feeds = draw_compiled(rng, graph), draw_image(seed)
    outputs, pieces = run_program(compiled, feeds)
    names = {piece[0] for piece in pieces} & set(graph.tensors)
    expected = WholeModel(graph, names).run(feeds)
    grids = find_grids(graph)
    for found in compare_pieces(pieces, expected):
        step = grids[found.tensor].scale if found.tensor in grids else 0.0
        # What follows a value that fell to the other side may be a step off itself.
        assert found.max_difference <= 2.001 * step + 1e-5 * found.max_magnitude, found
    steps = np.abs(outputs["y"] - expected["y"]) / grids["y"].scale
    assert np.mean(steps) <= 0.5


@settings(max_examples=15)
@given(rng=RANDOM)
def test_quantised_tensors_travel_as_their_codes(rng: Random) -> None:
    """A byte an element and a checksum, named exact: nothing is rounded that was not."""
    compiled = draw_compiled(rng, quantised_graph(True))
    assert not is_lossy(compiled.program)
    grids = find_grids(quantised_graph(True))
    for stream in compiled.program.streams:
        assert (stream.tensor in grids) == (stream.wire in CODE_FORMATS)
        if stream.tensor in grids:
            assert stream.wire_bytes == stream.box.size + 4


@pytest.mark.parametrize("integer", [True, False])
def test_weights_are_stored_as_codes(integer: bool) -> None:
    """Blobs hold a byte for each weight; what is loaded is as large as the kernels need."""
    graph = quantised_graph(integer)
    compiled = draw_compiled(Random(1), graph)
    infos = compiled.program.fragments
    for info in infos:
        assert info.stored_bytes == sum(compiled.blobs[name].nbytes for name in info.blobs)
    stored, loaded = sum(i.stored_bytes for i in infos), sum(i.weight_bytes for i in infos)
    assert stored > 5_000
    assert (loaded > 2 * stored) == (not integer)
    assert all(not split_location(name)[1] for name in compiled.blobs)
