"""Plans without a device, whose shares are with its neighbours."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace
from tests.planners.fakes import make_chain

from partita.adapting.hand_over import hand_over, plan_without
from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device
from partita.compile import check_plan, compile_plan
from partita.cost import CostModel, cost_of_rest
from partita.errors import InfeasibleError
from partita.exactness.compare import check_exactness
from partita.plan import Asked, Plan, Shard, Stage
from partita.planners import PlanOptions, find_plan
from partita.regions import Region

NAMES = ("a", "b", "c", "d")


def make_cost() -> CostModel:
    """Four boards, the first of which asks."""
    devices = [Device(name, kind="raspberry-pi-4") for name in NAMES]
    return CostModel(make_chain(4, height=16, channels=8), Cluster.of(devices))


def boxes_of(plan: Plan, stage: int = 0) -> dict[str, tuple[tuple[int, int], ...]]:
    """The bounds of each device's box of a stage's one output."""
    return {
        shard.device: next(iter(shard.boxes.values())).bounds for shard in plan.stages[stage].shards
    }


@pytest.mark.parametrize("lost", NAMES[1:])
@pytest.mark.parametrize(
    ("planner", "axes"),
    [
        ("equal_rows", None),
        ("deepthings", None),
        ("modnn", None),
        ("cut", None),
        ("best", ("tiles",)),
        ("best", ("output_channels",)),
        ("best", ("input_channels",)),
    ],
)
def test_what_is_left_is_sound_and_answers_the_same(
    planner: str, axes: tuple[str, ...] | None, lost: str
) -> None:
    """Whoever divided the network, and whatever device goes."""
    cost = make_cost()
    options = PlanOptions(axes=axes, max_evaluations=300)
    plan = find_plan(cost, planner=planner, options=options).plan
    rest = cost_of_rest(cost, cost.cluster.without(lost))
    again = plan_without(rest, plan, [lost])
    assert again is not None
    assert lost not in {s.device for stage in again.stages for s in (*stage.shards, *stage.merge)}
    compiled = compile_plan(cost.graph, again, rest.cluster)
    pieces = check_exactness(cost.graph, compiled, draw_inputs(cost.graph.input_specs, 1, 0))
    assert max(piece.relative for piece in pieces) <= 1e-5


def test_neighbours_get_half_of_the_rows_each() -> None:
    """Those of the first and of the last device have one neighbour, which gets all."""
    cost = make_cost()
    first, *others = (layer.name for layer in cost.graph.layers)
    (tensor,) = cost.graph.layer(first).outputs
    rows = [(0, 4), (4, 8), (8, 12), (12, 16)]
    whole = Region.full(cost.graph.tensors[tensor].shape)
    shards = tuple(
        Shard(name, {tensor: whole.with_axis(2, span)})
        for name, span in zip(NAMES, rows, strict=True)
    )
    stages = (
        Stage("rows", (first,), "rows", shards),
        Stage("rest", tuple(others), "none", (Shard("a"),)),
    )
    plan = replace(find_plan(cost, planner="single").plan, stages=stages)
    found = {
        lost: {
            name: box[2]
            for name, box in boxes_of(hand_over(plan, lost, cost.cluster.without(lost))).items()
        }
        for lost in NAMES
    }
    assert found["a"] == {"b": (0, 8), "c": (8, 12), "d": (12, 16)}
    assert found["b"] == {"a": (0, 6), "c": (6, 12), "d": (12, 16)}
    assert found["d"] == {"a": (0, 4), "b": (4, 8), "c": (8, 16)}


def test_replicas_and_their_shares_are_left_out() -> None:
    """Of two replicas one is left, which is whole; of three two share on."""
    cost = make_cost()
    layers = tuple(layer.name for layer in cost.graph.layers)
    three = Stage("all", layers, "replica", tuple(map(Shard, NAMES[1:])), shares=(3, 2, 1))
    plan = replace(find_plan(cost, planner="single").plan, stages=(three,), in_flight=4)
    for lost, shares in (("b", (2, 1)), ("c", (3, 1))):
        rest = cost.cluster.without(lost)
        again = hand_over(plan, lost, rest)
        assert again.stages[0].shares == shares
        check_plan(cost.graph, again, rest)
    (alone,) = hand_over(again, "d", cost.cluster.without("c", "d")).stages
    assert (alone.axis, alone.shards, alone.shares) == ("none", (Shard("b"),), ())


def test_what_one_device_had_alone_goes_to_its_neighbour() -> None:
    """The device of the stage before, or after; where there is none, the requester."""
    cost = make_cost()
    layers = [layer.name for layer in cost.graph.layers]
    stages = tuple(
        Stage(f"s{n}", (layer,), "none", (Shard(NAMES[1 + min(n, 2)]),))
        for n, layer in enumerate(layers)
    )
    plan = replace(find_plan(cost, planner="single").plan, stages=stages)

    def devices(plan: Plan) -> list[str]:
        return [stage.shards[0].device for stage in plan.stages]

    rest = cost.cluster.without("b")
    assert devices(hand_over(plan, "b", rest))[:2] == ["c", "c"]
    assert devices(hand_over(plan, "c", cost.cluster.without("c")))[:2] == ["b", "b"]
    whole = replace(plan, stages=(Stage("all", tuple(layers), "none", (Shard("b"),)),))
    assert devices(hand_over(whole, "b", rest)) == ["a"]


def test_nobody_is_given_more_than_it_has_memory_for() -> None:
    """Then there is no such plan, nor where nobody is left that computes."""
    cost = make_cost()
    plan = find_plan(cost, planner="equal_rows").plan
    rest = cost_of_rest(cost, cost.cluster.without("b"))
    needed = max(
        use.total for use in rest.memory(rest.layout(plan_without(rest, plan, ["b"]))).values()
    )  # type: ignore[arg-type]
    assert plan_without(rest.on(rest.cluster.with_memory("a", needed // 2)), plan, ["b"]) is None
    others = [Device(name, kind="raspberry-pi-4", computes=name == "b") for name in NAMES]
    layers = tuple(layer.name for layer in cost.graph.layers)
    whole = replace(plan, stages=(Stage("all", layers, "none", (Shard("b"),)),))
    with pytest.raises(InfeasibleError, match="none is left that computes"):
        hand_over(whole, "b", Cluster.of(others).without("b"))


def test_who_may_swap_is_given_more_than_fits() -> None:
    """Where the plan allows it and the device can; else there is no such plan."""
    cost = make_cost()
    plan = find_plan(cost, planner="equal_rows").plan
    small = cost_of_rest(cost, cost.cluster.without("b"))
    small = small.on(small.cluster.with_memory("a", 1000))
    assert plan_without(small, plan, ["b"]) is None
    devices = tuple(dataclasses.replace(one, swap_bytes_per_s=1e6) for one in small.cluster.devices)
    swapping = small.on(dataclasses.replace(small.cluster, devices=devices))
    assert plan_without(swapping, plan, ["b"]) is None
    assert plan_without(swapping, replace(plan, options=Asked(swap=True)), ["b"]) is not None
