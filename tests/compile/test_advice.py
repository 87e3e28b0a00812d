"""What the paper advises for layers whose costs are known."""

from __future__ import annotations

import pytest

from partita.compile import advice
from partita.compile.advice import Advice, advise
from partita.graph import Graph
from partita.graph.splits import row_axes
from tests.compile.test_split_costs import conv_graph, dense_graph


def advise_first(graph: Graph) -> Advice:
    """Return the advice for the one layer."""
    layer = graph.layers[0]
    return advise(graph, layer, row_axes(graph).splits(layer.name))


def test_small_windows_are_divided_in_space() -> None:
    """A 3 x 3 window reaches one row into its neighbour's: the halo is the least."""
    assert advise_first(conv_graph(64, 128, (128, 128), (3, 3))) == Advice("rows", "halo")


def test_large_windows_are_divided_by_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the halo is most of the input, partial sums or copies of the input are less."""
    monkeypatch.setattr(advice, "_is_small", lambda _: False)
    pads = [0, 0, 0, 0]
    for outputs, way in (
        (64, Advice("input_channels", "sums")),
        (2048, Advice("output_channels", "copies")),
    ):
        assert advise_first(conv_graph(8, outputs, (13, 13), (13, 13), pads=pads)) == way


def test_dense_layers_are_divided_by_outputs() -> None:
    """Where memory forces it: VGG-16's first one has 411 MB of weights."""
    assert advise_first(dense_graph(25088, 4096)) == Advice("output_channels", "activation")


def test_short_layers_stay_whole() -> None:
    """Below 0.2 s on the paper's board there is not much to gain."""
    assert advise_first(conv_graph(16, 16, (28, 28), (3, 3))) == Advice("none", "small")
    assert advise_first(dense_graph(4096, 1000)) == Advice("none", "small")
