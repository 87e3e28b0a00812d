"""What was asked of a plan is kept in it: for files, for planning anew, and after a loss."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.errors import InfeasibleError, PlanError
from partita.leader import Lost
from partita.plan import Identity, Plan, dump_plan, load_plan
from partita.planners import Chosen, DraftStage, PlanOptions, find_plan, register
from partita.planners.options import asked_of, options_of, restrict_devices
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import _PLANNERS
from tests.planners.fakes import make_chain, make_cost

_NAMES = st.sampled_from(["d0", "d1", "d2"])
_TENSORS = st.sampled_from(["x", "t0", "t1"])
_OPTIONS = st.builds(
    PlanOptions,
    objective=st.sampled_from(["latency", "throughput", "memory", "energy"]),
    seed=st.integers(0, 9),
    in_flight=st.integers(1, 4),
    keep_on=st.dictionaries(_TENSORS, _NAMES),
    wires=st.dictionaries(_TENSORS, st.sampled_from(["float16", "uint4"])),
    devices=st.none() | st.lists(_NAMES, min_size=1, unique=True).map(tuple),
    max_evaluations=st.none() | st.integers(1, 500),
    axes=st.none() | st.lists(st.sampled_from(["rows", "tiles"]), unique=True).map(tuple),
    compress=st.none() | st.just("uint8"),
    energy_limits=st.dictionaries(_NAMES, st.floats(0.1, 1e6)),
    method=st.dictionaries(st.just("distredge.episodes"), st.just("4")),
    simple=st.booleans(),
    integer_kernels=st.booleans(),
)


@given(_OPTIONS)
def test_options_come_back_from_a_file(options: PlanOptions) -> None:
    """Whatever was asked is read back from the plan's bytes."""
    plan = Plan(
        Identity("net", "a" * 64),
        Identity("lab", "b" * 64),
        (),
        "by hand",
        objective=options.objective,
        seed=options.seed,
        in_flight=options.in_flight,
        keep_on=dict(options.keep_on),
        options=asked_of(options),
    )
    assert options_of(load_plan(dump_plan(plan))) == options


def test_planning_anew_asks_the_same() -> None:
    """A plan's finder keeps to the axes, devices and limits that the plan was made with."""
    cost = make_cost(make_chain(4, seed=1), 1e7, 3e7, 2e7, bandwidth=1e9)
    asked = PlanOptions(
        devices=("d0", "d2"),
        axes=("output_channels",),
        energy_limits={"d2": 50.0},
        compress="uint8",
        max_evaluations=300,
        seed=3,
    )
    plan = load_plan(dump_plan(find_plan(cost, options=asked).plan))
    again = make_finder(plan, most_s=30.0)(cost)
    assert options_of(plan) == options_of(again) == asked
    assert again.stages == plan.stages
    assert again.wires == plan.wires
    free = find_plan(cost, options=replace(asked, devices=None, axes=None)).plan
    assert {shard.device for stage in free.stages for shard in stage.shards} > {"d0", "d2"}


def test_a_lossy_plan_may_send_other_tensors_lossy_anew() -> None:
    """``compress`` is what was asked, not the tensors that it came to."""
    cost = make_cost(make_chain(4, seed=1), 1e7, 3e7, bandwidth=1e6)
    plan = find_plan(cost, options=PlanOptions(compress="uint8")).plan
    options = options_of(plan)
    assert (options.compress, dict(options.wires)) == ("uint8", {})


def test_a_plan_from_before_says_what_it_can() -> None:
    """A file without the key is read; its wire formats are what was asked."""
    cost = make_cost(make_chain(2), 1e8, 2e8)
    made = find_plan(cost, options=PlanOptions(wires={"t0": "uint8"}, seed=2)).plan
    data = json.loads(dump_plan(made))
    del data["options"]
    old = load_plan(json.dumps(data).encode())
    assert old.options is None
    assert options_of(old) == PlanOptions(wires={"t0": "uint8"}, seed=2)


def test_a_misspelt_option_is_named() -> None:
    """The message lists what may be asked."""
    cost = make_cost(make_chain(2), 1e8, 2e8)
    data = json.loads(dump_plan(find_plan(cost, planner="single").plan))
    data["options"] = {"axis": ["rows"]}
    with pytest.raises(PlanError, match=r"unknown field `axis`.*keys here are wires, devices"):
        load_plan(json.dumps(data).encode())


def _real_cost() -> CostModel:
    kinds = ("raspberry-pi-4", "jetson-nano", "laptop")
    devices = [Device(f"d{n}", kind=kind) for n, kind in enumerate(kinds)]
    return CostModel(make_chain(3), Cluster.of(devices))


def test_recovery_keeps_what_was_asked_of_the_rest() -> None:
    """A lost device leaves the devices and limits; axes and compression stay."""
    cost = _real_cost()
    asked = PlanOptions(
        devices=("d1", "d2"), axes=("rows",), energy_limits={"d1": 9.0, "d2": 8.0}, compress="uint8"
    )
    replanner = Replanner(cost, find_plan(cost, options=asked).plan)
    replanner.recover(Lost(("d2",)))
    rest = replace(asked, devices=("d1",), energy_limits={"d1": 9.0})
    assert options_of(replanner.plan) == rest
    used = {shard.device for stage in replanner.plan.stages for shard in stage.shards}
    assert used == {"d1"}
    with pytest.raises(InfeasibleError, match="may compute is left: d1"):
        replanner.recover(Lost(("d2", "d1")))


def test_a_pin_on_a_lost_device_is_an_error() -> None:
    """What must not leave a device has no plan without it."""
    options = PlanOptions(keep_on={"t0": "d1"})
    with pytest.raises(InfeasibleError, match="'t0' must not leave device 'd1', which is lost"):
        restrict_devices(options, ("d0",))
    assert restrict_devices(options, ("d0", "d1")) == options


def test_a_planner_may_return_stages_and_wires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages and formats of a planner's own are the plan, priced as any other, and are checked."""
    cost = make_cost(make_chain(3), 1e7, 3e7, bandwidth=1e6)
    known = find_plan(cost, planner="cut").plan
    monkeypatch.setitem(_PLANNERS, "by stages", None)  # type: ignore[arg-type]

    @register("by stages", cost="cheap")
    def choose(evaluator: Evaluator) -> Chosen:
        """Say what another planner found, as stages, with a wire format."""
        return Chosen(stages=known.stages, status="feasible", wires={"x": "uint8"})

    result = find_plan(cost, planner="by stages", options=PlanOptions(seed=4))
    assert result.plan.stages == known.stages
    assert result.plan.wires == {"x": "uint8"}
    assert (result.plan.planner, result.plan.seed, result.status) == ("by stages", 4, "feasible")
    assert options_of(result.plan) == PlanOptions(seed=4)
    evaluator = Evaluator(cost, PlanOptions())
    assert result.estimate == evaluator.evaluate(result.plan)


def test_stages_of_a_planner_that_break_a_rule_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that forgets a layer is told so."""
    cost = make_cost(make_chain(3), 1e7, 3e7)
    stages = find_plan(cost, planner="single").plan.stages
    short = (type(stages[0])("s", stages[0].layers[:-1], "none", stages[0].shards),)
    monkeypatch.setitem(_PLANNERS, "short", None)  # type: ignore[arg-type]

    @register("short", cost="cheap")
    def choose(evaluator: Evaluator) -> Chosen:
        """Leave the last layer out."""
        return Chosen(stages=short)

    with pytest.raises(PlanError, match=r"not sound.*c2"):
        find_plan(cost, planner="short")
    with pytest.raises(ValueError, match="not both"):
        Chosen((DraftStage(0, 3, "none", ("d0",)),), stages=short)
