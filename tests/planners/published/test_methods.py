"""What sets each published method apart."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Link
from partita.planners import Draft, Evaluator, PlanOptions
from partita.planners.published import aofl, coedge, deeperthings, deepthings, mednn, modnn, offload
from partita.planners.published.fused_blocks import FusedBlocks
from partita.planners.published.linear_view import LinearView, fit_view
from partita.planners.published.mednn import deal_rows
from partita.planners.search.best import ALWAYS
from tests.planners.fakes import FakeCost, conv, make_chain, make_cost, make_graph


def _view(*rates: float, layers: int = 5, bandwidth: float = 3e6) -> LinearView:
    cost = make_cost(make_chain(layers, seed=2), *rates, bandwidth=bandwidth)
    return fit_view(Evaluator(cost, PlanOptions()), cost.cluster.names)


def _rows(draft: Draft) -> list[tuple[int, int]]:
    return [(stage.start, stage.stop) for stage in draft if stage.axis == "rows"]


def test_best_does_not_ask_them() -> None:
    """The planner to use is compared with them without being handed their plans."""
    assert "published" not in ALWAYS


def test_layer_by_layer_methods_divide_each_layer() -> None:
    """MoDNN, MeDNN and CoEdge make a stage of every layer."""
    view = _view(1e7, 3e7)
    for method in (modnn, mednn, coedge):
        assert _rows(method.choose_draft(view)) == [(p, p + 1) for p in range(5)]


def test_modnn_divides_by_capability_and_not_by_network() -> None:
    """A quarter and three quarters, however slow the links."""
    for bandwidth in (1e2, 1e9):
        draft = modnn.choose_draft(_view(1e7, 3e7, bandwidth=bandwidth))
        assert draft[0].widths == [1, 3]


@pytest.mark.parametrize("rows", [1, 5, 7, 13, 112])
def test_mednn_deals_rows_so_that_the_last_is_soonest(rows: int) -> None:
    """No other deal of whole rows to three devices ends sooner."""
    rates = [1.0, 2.5, 4.0]
    dealt = deal_rows(rows, rates)
    assert sum(dealt) == rows
    longest = max(width / rate for width, rate in zip(dealt, rates, strict=True))
    every = (
        max(a / rates[0], b / rates[1], (rows - a - b) / rates[2])
        for a in range(rows + 1)
        for b in range(rows + 1 - a)
    )
    assert longest == pytest.approx(min(every))


def test_deepthings_has_one_equal_block_and_a_gateway() -> None:
    """One divided stage in equal parts whatever the capabilities; the requester does the rest."""
    draft = deepthings.choose_draft(_view(1e6, 9e6, bandwidth=1e6))
    assert [stage.axis for stage in draft] in (["rows"], ["rows", "none"])
    assert draft[0].widths[0] == draft[0].widths[1]
    assert draft[-1].axis == "rows" or draft[-1].devices == ("d0",)


def test_deeperthings_divides_all_layers_equally() -> None:
    """Blocks in equal parts reach the last layer with rows."""
    draft = deeperthings.choose_draft(_view(1e6, 9e6))
    assert _rows(draft)[-1][1] == 5
    assert all(len(set(stage.widths)) == 1 for stage in draft)


def test_equal_methods_do_not_see_which_device_is_fast() -> None:
    """The same devices in another order have the same parts."""
    for method in (deepthings, deeperthings):
        one, other = (method.choose_draft(_view(*rates)) for rates in ((1e6, 9e6), (9e6, 1e6)))
        assert [s.cuts for s in one if s.cuts] == [s.cuts for s in other if s.cuts]


def test_aofl_is_the_least_by_its_own_model() -> None:
    """Its draft is the better of two share vectors, and slow links change the shares."""
    view = _view(1e7, 2e7, 3e7)
    draft = aofl.choose_draft(view)
    seconds = [FusedBlocks(view, shares).best_ends("d2")[1] for shares in aofl._share_vectors(view)]
    assert len(seconds) == 2
    chosen = draft[0].widths
    assert chosen[0] <= chosen[1] <= chosen[2]
    assert len(_rows(draft)) >= 1


def test_aofl_gives_less_over_a_slow_link() -> None:
    """Of equal devices the one behind a slow link gets fewer rows."""
    names = ["d0", "d1", "d2"]
    links = [Link(a, b, 1e6 if "d2" in (a, b) else 1e8) for a in names for b in names if a != b]
    cluster = Cluster.of(names, links=links)
    cost = FakeCost(make_chain(4, seed=2), cluster, dict.fromkeys(names, 2e7))
    view = fit_view(Evaluator(cost, PlanOptions()), cluster.names)
    widths = aofl.choose_draft(view)[0].widths
    assert widths[2] < widths[1]


def test_offload_takes_the_best_hardware_then_the_best_link() -> None:
    """A slow link does not save the fastest device; between equals the link decides."""
    graph = make_graph([*conv("c", "x", "y", (4, 4, 3, 3))], {"x": (1, 4, 8, 8)}, ["y"])
    names = ["d0", "d1", "d2", "d3"]
    rates = {"d1": 1e5, "d2": 1e6, "d3": 1e9}
    links = [Link(a, b, min(rates.get(a, 1e9), rates.get(b, 1e9))) for a in names for b in names
             if a != b]  # fmt: skip
    cluster = Cluster.of(names, links=links)
    for speeds, expected in (((1, 5, 4, 4), "d1"), ((1, 4, 4, 2), "d2")):
        macs = {name: 1e7 * speed for name, speed in zip(names, speeds, strict=True)}
        view = fit_view(Evaluator(FakeCost(graph, cluster, macs), PlanOptions()), cluster.names)
        (stage,) = offload.choose_draft(view)
        assert stage.devices == (expected,)
