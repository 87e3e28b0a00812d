"""Layers in planning order: what crosses each cut, what may be divided, what is pinned."""

from __future__ import annotations

import pytest
from onnx import helper

from partita.errors import InfeasibleError, PlanError
from partita.graph import Graph
from partita.planners.drafts.layer_order import LayerOrder
from tests.planners.fakes import conv, make_chain, make_dense, make_gated, make_graph, make_pair


def _skip() -> Graph:
    """Return a chain of three whose first output is read again at the end."""
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        *conv("c1", "a", "b", (2, 4, 3, 3), strides=[2, 2]),
        *conv("c2", "b", "d", (2, 2, 3, 3)),
        *conv("c3", "a", "e", (4, 4, 1, 1)),
    ]
    return make_graph(parts, {"x": (1, 3, 8, 8)}, ["d", "e"])


def test_what_is_read_later_crosses_every_cut_until_then() -> None:
    """The first output lives until its last reader; outputs of the network until the end."""
    order = LayerOrder(_skip())
    assert order.order == ("c0", "c1", "c2", "c3")
    live = [set(order.live(position)) for position in range(5)]
    assert live == [{"x"}, {"a"}, {"a", "b"}, {"a", "d"}, {"d", "e"}]
    # a: 4 x 8 x 8 floats, b: 2 x 4 x 4.
    assert order.live_bytes[1:3] == (1024, 1024 + 128)


def test_outputs_of_a_range_are_what_others_read() -> None:
    """What only the range itself reads is none of its outputs."""
    order = LayerOrder(_skip())
    assert order.outputs(0, 2) == ("a", "b")
    assert order.outputs(1, 3) == ("d",)
    assert set(order.outputs(0, 4)) == {"d", "e"}
    assert order.rows(1, 4) == 8
    assert order.rows(1, 3) == 4


def test_places_to_cut_are_ranked_by_what_crosses() -> None:
    """One tensor before two, then fewer bytes."""
    order = LayerOrder(_skip())
    assert order.least_crossed([1, 2, 3]) == [1, 2, 3]
    parts = [
        *conv("c0", "x", "a", (8, 3, 1, 1)),
        *conv("c1", "a", "b", (2, 8, 1, 1)),
        *conv("c2", "b", "y", (4, 2, 1, 1)),
    ]
    narrow = LayerOrder(make_graph(parts, {"x": (1, 3, 8, 8)}, ["y"]))
    assert narrow.least_crossed([1, 2]) == [2, 1]


def test_layers_with_rows_come_first() -> None:
    """Heads that could run before a layer without rows do so, whatever the file's order."""
    parts = [
        *conv("c0", "x", "a", (4, 3, 3, 3)),
        helper.make_node("GlobalAveragePool", ["a"], ["p"], name="pool"),
        *conv("c1", "a", "b", (4, 4, 3, 3)),
    ]
    order = LayerOrder(make_graph(parts, {"x": (1, 3, 8, 8)}, ["p", "b"]))
    assert order.order == ("c0", "c1", "pool")
    assert order.kinds == ("rows", "rows", "reduce")
    assert order.row_runs() == [(0, 2)]


def test_dense_layers_have_channels_and_no_rows() -> None:
    """Neurons of a product with weights are divided; a range with two outputs is not."""
    order = LayerOrder(make_dense(2))
    last = order.order.index("fc1")
    assert order.kinds[last] == "whole"
    assert order.channels(last, last + 1) == 16
    assert not order.is_divisible(last, last + 1)
    pair = LayerOrder(make_pair())
    assert len(pair.outputs(0, len(pair))) == 2
    assert pair.channels(0, len(pair)) == 0


def test_columns_need_a_map() -> None:
    """A convolution's output has columns; the mean over space has none left to divide."""
    order = LayerOrder(make_gated())
    assert order.columns(0, 1) == 16
    flat = LayerOrder(make_dense(1))
    last = len(flat) - 1
    assert flat.columns(last, last + 1) == 0


def test_pins_are_on_makers_and_readers() -> None:
    """Both layers that touch a kept tensor are pinned, and no range with them is divided."""
    order = LayerOrder(make_chain(4), {"t1": "d1"}, "d0")
    assert order.pins == {1: "d1", 2: "d1"}
    assert order.is_divisible(0, 1)
    assert not order.is_divisible(0, 2)
    assert order.row_runs() == [(0, 1), (3, 4)]


def test_pins_that_contradict_each_other_are_refused() -> None:
    """A layer between tensors kept on two devices cannot run; an unknown tensor is named."""
    with pytest.raises(InfeasibleError, match=r"'c1' touches tensors kept on 'd1' and on 'd2'"):
        LayerOrder(make_chain(3), {"t0": "d1", "t1": "d2"}, "d0")
    with pytest.raises(InfeasibleError, match="'t2' cannot be kept on 'd1'"):
        LayerOrder(make_chain(3), {"t2": "d1"}, "d0")
    with pytest.raises(PlanError, match=r"'w' is to be kept .* Its inputs are x;"):
        LayerOrder(make_chain(3), {"w": "d0"}, "d0")
