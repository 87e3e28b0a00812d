"""What changes would gain, on networks and clusters that fit in the head."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.errors import ClusterError
from partita.planners import PlanOptions, find_plan, what_if
from partita.planners.gains import PLANNED_ANEW
from partita.planners.variations import (
    add_devices,
    combine,
    compress,
    give_memory,
    list_boards,
    name_board,
    speed_links,
    usual_variations,
)
from partita.simulation import predict
from tests.planners.test_sizing import PI3, PI4, make_network

OPTIONS = PlanOptions(budget_s=2.0)


def two(rate: float = 1e9, **changes: object) -> CostModel:
    """A camera that only asks, and a board that computes."""
    camera = Device("cam", kind=PI3, computes=False)
    board = replace(Device("board", kind=PI3), **changes)  # type: ignore[arg-type]
    cluster = Cluster.of([camera, board], bandwidth_bytes_per_s=rate, latency_s=1e-5)
    return CostModel(make_network(), cluster)


def test_one_more_board_like_the_only_one_nearly_doubles_throughput() -> None:
    """With two requests per board in flight and fast links, two boards answer twice as often."""
    cost = two()
    options = replace(OPTIONS, objective="throughput", in_flight=2)
    found = what_if(cost, variations=[add_devices(cost, options, "board", 1)], options=options)
    (outcome,) = found.outcomes
    assert 1.7 < outcome.gain <= outcome.most_gain
    assert outcome.plan is not None
    simulated = predict(outcome.variation.cost, outcome.plan, requests=64)
    gained = simulated.images_per_second / found.estimate.images_per_second
    assert gained == pytest.approx(outcome.gain, rel=0.1)


def test_changes_are_ranked_and_none_is_worse_than_nothing() -> None:
    """Where a slow link decides, its rate gains most; memory gains nothing, and loses nothing."""
    cost = two(rate=2e5)
    options = replace(OPTIONS, budget_s=4.0)
    variations = [
        give_memory(cost, options, factor=2.0),
        add_devices(cost, options, PI3, 1),
        speed_links(cost, options, factor=10.0),
        compress(cost, options, "uint8"),
    ]
    found = what_if(cost, variations=variations, options=options)
    names = [outcome.variation.name for outcome in found.outcomes]
    assert names[0] == "every link 10x as fast"
    gains = [outcome.gain for outcome in found.outcomes]
    assert gains == sorted(gains, reverse=True)
    assert all(1.0 <= outcome.gain <= outcome.most_gain for outcome in found.outcomes)
    by_name = {outcome.variation.name: outcome for outcome in found.outcomes}
    assert by_name["2x the memory for each device"].gain == pytest.approx(1.0)
    assert not by_name["tensors as uint8 (not exact)"].variation.is_exact
    assert by_name["tensors as uint8 (not exact)"].gain > 1.5


def test_a_plan_that_is_given_is_compared_with_one_planned_anew() -> None:
    """A poor plan gains by planning alone, which is no change's merit."""
    cost = two()
    both = add_devices(cost, OPTIONS, PI3, 1).cost
    poor = find_plan(both, planner="single", options=PlanOptions()).plan
    found = what_if(
        both, poor, variations=[give_memory(both, OPTIONS, factor=2.0)], options=OPTIONS
    )
    gains = {outcome.variation.name: outcome.gain for outcome in found.outcomes}
    assert gains[PLANNED_ANEW] > 1.2
    assert gains["2x the memory for each device"] == pytest.approx(gains[PLANNED_ANEW], rel=0.05)


def test_what_cannot_run_is_said_so() -> None:
    """Too little memory leaves no plan: the gain is none, and the fault says why."""
    cost = two()
    found = what_if(cost, variations=[give_memory(cost, OPTIONS, memory_bytes=10)], options=OPTIONS)
    (outcome,) = found.outcomes
    assert (outcome.plan, outcome.gain, outcome.most_gain) == (None, 0.0, inf)
    assert "memory" in outcome.fault or "needs" in outcome.fault


def test_the_usual_changes_are_one_of_each_kind_links_and_formats() -> None:
    """Two kinds make two purchases; a lone device has neither boards to add to nor links."""
    devices = [Device("a", kind=PI3), Device("b", kind=PI4), Device("c", kind=PI4)]
    cost = CostModel(make_network(), Cluster.of(devices))
    assert [one.name for one in usual_variations(cost, PlanOptions())] == [
        f"one more {PI3}",
        f"one more {PI4}",
        "every link 2x as fast",
        "tensors as float16 (not exact)",
        "tensors as uint8 (not exact)",
    ]
    links = [Link("a", "a-2", 1e6), Link("a-2", "a", 1e6)]
    apart = Cluster.of([devices[0], Device("a-2", kind=PI3), devices[1]], links=links)
    names = [one.name for one in usual_variations(CostModel(make_network(), apart), PlanOptions())]
    assert names[:2] == [f"one more {PI3}", "every link 2x as fast"]
    alone = CostModel(make_network(), Cluster.of([Device("a", kind=PI3)]))
    names = [one.name for one in usual_variations(alone, PlanOptions())]
    assert names == ["tensors as float16 (not exact)", "tensors as uint8 (not exact)"]


def test_a_kind_that_is_not_there_comes_from_the_catalogue() -> None:
    """It is as fast as its kind is, with links like those of a device that is there."""
    variation = add_devices(two(), PlanOptions(), "jetson-nano", 2)
    assert variation.name == "2 more jetson-nano"
    cluster = variation.cost.cluster
    assert [device.kind for device in cluster.devices] == [PI3, PI3, "jetson-nano", "jetson-nano"]
    assert cluster.link("cam", "jetson-nano-2") is not None
    with pytest.raises(ClusterError, match="Nothing is known of kind 'abacus'"):
        add_devices(two(), PlanOptions(), "abacus", 1)


def test_copies_are_as_slow_as_their_pattern_was_measured() -> None:
    """A device that drifted to a third of its speed has copies that are no faster."""
    cost = two()
    cost.devices["board"] = cost.devices["board"].slowed(3.0)
    grown = add_devices(cost, PlanOptions(), "board", 1).cost
    assert grown.devices["board"].facts.slow_down == 3.0
    assert grown.devices["board-2"].facts.slow_down == 3.0


def test_links_change_with_ports_and_traces() -> None:
    """Twice the rate holds for what comes later, too; a port is never what is left behind."""
    links = [
        Link("a", "b", 100.0, trace=((5.0, 50.0),)),
        Link("b", "a", 100.0),
        Link("b", "c", 10.0),
    ]
    devices = [
        Device("a", kind=PI3, port_bytes_per_s=80.0),
        Device("b", kind=PI3),
        Device("c", kind=PI3),
    ]
    cost = CostModel(make_network(), Cluster.of(devices, links=links))
    twice = speed_links(cost, PlanOptions(), factor=2.0).cost.cluster
    assert twice.link_map["a", "b"].bandwidth_at(6.0) == 100.0
    assert twice.device("a").port_bytes_per_s == 160.0
    some = speed_links(cost, PlanOptions(), bytes_per_s=500.0, pair=("b", "a")).cost.cluster
    assert some.link_map["a", "b"].bandwidth_at(6.0) == 500.0
    assert some.link_map["b", "c"].bandwidth_bytes_per_s == 10.0
    with pytest.raises(ClusterError, match="no link between 'a' and 'c'"):
        speed_links(cost, PlanOptions(), factor=2.0, pair=("a", "c"))


def test_changes_are_combined_in_order() -> None:
    """What is combined has all of it: boards, rates and formats."""
    cost = two()
    made = combine(
        cost,
        PlanOptions(),
        [
            lambda cost, options: add_devices(cost, options, PI3, 1),
            lambda cost, options: speed_links(cost, options, factor=2.0),
            lambda cost, options: compress(cost, options, "float16"),
        ],
    )
    assert (
        made.name == f"one more {PI3} and every link 2x as fast and tensors as float16 (not exact)"
    )
    assert len(made.cost.cluster.devices) == 3
    assert made.cost.cluster.link_map["cam", "board-2"].bandwidth_bytes_per_s == 2e9
    assert (made.options.compress, made.is_exact) == ("float16", False)


def test_boards_of_one_kind_that_differ_go_by_their_names() -> None:
    """Emulated devices of other slow-downs are other boards; a kind alone keeps its name."""
    devices = [
        Device("slow", kind=PI3, slow_down=4.0),
        Device("slower", kind=PI3, slow_down=8.0),
        Device("twin", kind=PI3, slow_down=8.0),
        Device("four", kind=PI4),
    ]
    cluster = Cluster.of(devices)
    assert list(list_boards(cluster)) == ["slow", "slower", PI4]
    assert [name_board(cluster, name) for name in ("twin", "four")] == ["slower", PI4]
