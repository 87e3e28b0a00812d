"""Plans that change while a session runs, over workers in memory with emulated links."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.memory_lab import MemoryLab, memory_lab
from tests.program_builder import ProgramBuilder
from tests.worker.tiny import Tiny, equip, random_inputs, weight_of

from partita.cluster import Device, Link
from partita.execution import AdaptOptions, Conditions, weight_bytes
from partita.execution.adapt import Proposed
from partita.leader import (
    DeployOptions,
    Expected,
    Lost,
    Session,
    change_log,
    deploy,
    rate_monitor,
    replan_controller,
)
from partita.program import Program
from partita.worker import Worker, control
from partita.worker.memory_limit import MemoryLimit

OPTIONS = AdaptOptions(
    threshold=0.5, hold_s=0.1, window_s=0.02, pause_s=0.0, trial=3, worse=0.2, probe_s=math.inf
)
FAST, SLOW = 20_000.0, 1_000.0
BEGIN_S = 0.06


def through(device: str, in_flight: int = 2) -> Tiny:
    """Return a program that multiplies on ``device``, for requester d0."""
    build = ProgramBuilder(1, in_flight=in_flight)
    build.names = list(dict.fromkeys(("d0", device)))
    build.steps = {name: [] for name in build.names}
    there = build.feed(rows=16)
    if device != "d0":
        there = build.send(there, device)
    made = build.compute(device, [[there]], "a", box=(0, 16))
    build.deliver([[made if device == "d0" else build.send(made, "d0")]])
    return equip(build.build())


class Plans:
    """Proposes one plan after the other, whatever was measured."""

    def __init__(self, *proposals: tuple[str, float]) -> None:
        self.key = "d1"
        self.stood_by = False
        self.assumed = Conditions({("d0", "d1"): FAST}, {})
        self.proposals = list(proposals)
        self.asked: list[Conditions] = []

    def propose(self, conditions: Conditions) -> Proposed:
        """Return the next proposal, the last one again and again."""
        self.assumed = conditions
        self.asked.append(conditions)
        key, predicted_s = self.proposals.pop(0) if len(self.proposals) > 1 else self.proposals[0]
        return Proposed(key, predicted_s, 1.0)

    def compile(self, key: str) -> Tiny:
        """Return the program on the device that the key names."""
        return through(key)

    def expect(self, key: str) -> Expected:
        """Return that computing takes no time worth watching."""
        return Expected({})

    def held_bytes(self, programs: Sequence[Program]) -> dict[str, int]:
        """Return that weights are all that is held."""
        held: dict[str, int] = {}
        for program in programs:
            for name in (part.device for part in program.devices):
                held[name] = held.get(name, 0) + weight_bytes(program, name)
        return held

    def adopt(self, key: str) -> None:
        """Take note of the running plan."""
        self.key, self.stood_by = key, False

    roster = ("d0", "d1", "d2")

    def may_join(self, device: str) -> bool:
        """Return that strangers are none of ours."""
        return device in self.roster

    def set_lost(self, lost: Lost) -> None:
        """Plan as before."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Contexts that end with the test."""
    with ExitStack() as entered:
        yield entered


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the leader look often, and no collection of the test process's garbage on the way.

    Links are so slow here that short messages measure them.
    """
    monkeypatch.setattr(replan_controller, "SAMPLE_S", 0.005)
    monkeypatch.setattr(rate_monitor, "_LEAST_MESSAGE_BYTES", 1)
    idle = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
    monkeypatch.setattr(control, "gc", idle)


def start(
    stack: ExitStack,
    plans: Plans,
    options: AdaptOptions = OPTIONS,
    *,
    memory: int = 10**9,
    back: float = FAST,
) -> tuple[MemoryLab, Session]:
    """Run plan ``d1``; the link to d1 slows down soon; those with d2 have the rate ``back``."""
    rates = {("d1", "d0"): FAST, ("d0", "d2"): back, ("d2", "d0"): back}
    links = [Link(*pair, rate) for pair, rate in rates.items()]
    links.append(Link("d0", "d1", FAST, trace=((BEGIN_S, SLOW),)))
    devices = [Device(name, memory_bytes=memory) for name in ("d0", "d1", "d2")]
    lab = stack.enter_context(memory_lab(devices, links=links))
    deployed = DeployOptions(repeats=1, wait_s=0.2)
    session = deploy(through("d1"), lab.endpoint, deployed, adapting=(plans, options))
    return lab, stack.enter_context(session)


def run_until(session: Session, is_done: Callable[[], bool], least: int = 20) -> int:
    """Stream requests until something has happened; check that each answer is its own, in order."""
    given: list[np.ndarray] = []

    def feed() -> Iterator[dict[str, np.ndarray]]:
        deadline_s = time.monotonic() + 60
        while len(given) < least or not is_done():
            assert time.monotonic() < deadline_s, session.changes
            one = random_inputs(session.program, 1, seed=len(given))[0]
            given.append(one["input"])
            yield one

    session.begin_traces()
    weight = np.float32(weight_of("make a"))
    count = 0
    for answer in session.iterate(feed()):
        np.testing.assert_array_equal(answer["a"], given[count] * weight)
        count += 1
    assert count == len(given)
    return count


def outcomes(session: Session) -> list[str]:
    """Return what came of each search."""
    return [change.outcome for change in session.changes]


def is_settled(session: Session) -> bool:
    """Whether a switch was judged, or its trial ended without a verdict."""
    switched = [change for change in session.changes if change.outcome == "switched"]
    return any(change.measured_new_s or change.detail for change in switched)


class Careful(Plans):
    """Leaves the link once it is really slow: a busy machine is at times, and is searched for."""

    def propose(self, conditions: Conditions) -> Proposed:
        """The plan without the link, or the one that runs."""
        self.asked.append(conditions)
        is_slow = conditions.rates["d0", "d1"] < 2 * SLOW
        return Proposed("d0" if is_slow else "d1", 0.1, 1.0)


def test_a_slow_link_leads_to_another_plan_and_nothing_is_lost(stack: ExitStack) -> None:
    """Requests stream across a switch; each is answered once, in order."""
    plans = Careful(("d0", 0.1))
    # Whatever is measured is good enough: a busy machine decides nothing here.
    _, session = start(stack, plans, replace(OPTIONS, worse=math.inf))
    count = run_until(session, lambda: plans.key == "d0" and is_settled(session))
    change = next(one for one in session.changes if one.outcome == "switched")
    assert "d0 → d1" in change.why
    assert change.switched_s is not None
    assert [part.device for part in session.program.devices] == ["d0"]
    report = session.report()
    assert len(report.latencies_s) == count
    assert {(use.source, use.target) for use in report.links} == {("d0", "d1"), ("d1", "d0")}


def test_a_plan_that_fails_its_trial_is_rolled_back(stack: ExitStack) -> None:
    """Requests stream there and back again; none is lost, and the old plan runs."""
    plans = Plans(("d2", 0.1))
    # Whatever is measured is worse than allowed: a busy machine decides nothing here.
    _, session = start(stack, plans, replace(OPTIONS, worse=-1.0))
    run_until(session, lambda: "rolled back" in outcomes(session) and plans.key == "d1")
    change = next(one for one in session.changes if one.outcome == "rolled back")
    assert change.measured_new_s is not None
    assert {part.device for part in session.program.devices} == {"d0", "d1"}


def limit_memory(worker: Worker, before: Callable[[], object]) -> None:
    """Let ``before`` be called whenever the worker looks whether a plan fits its memory."""

    class Watched(MemoryLimit):
        def check_weights(self, program: Program, running: Iterable[Program]) -> None:
            before()
            super().check_weights(program, running)

    memory = worker._resources.memory
    watched = Watched(memory.device, memory.limit_bytes, memory.idle_bytes)
    worker._resources = replace(worker._resources, memory=watched)


@pytest.mark.parametrize(("memory", "beside_weights"), [(7, 0), (1000, 1000)])
def test_room_is_made_on_a_device_that_both_plans_use(
    stack: ExitStack, memory: int, beside_weights: int
) -> None:
    """With memory for one plan only, the next one is loaded once the first is gone.

    Whether it is the weights that are too many, or what is held beside them.
    """
    plans = Plans(("d1 again", 0.1))
    plans.compile = lambda key: through("d1")  # type: ignore[method-assign]
    held_bytes = plans.held_bytes
    plans.held_bytes = lambda programs: {  # type: ignore[method-assign]
        name: size + beside_weights for name, size in held_bytes(programs).items()
    }
    lab, session = start(stack, plans, replace(OPTIONS, trial=0), memory=memory)
    seen: list[int] = []
    worker = lab.workers["d1"]
    limit_memory(worker, lambda: seen.append(len(worker._epochs)))
    run_until(session, lambda: "switched" in outcomes(session))
    assert seen[0] == 0
    assert session.changes[0].outcome == "switched"


def test_a_plan_that_cannot_be_loaded_leaves_the_old_one(stack: ExitStack) -> None:
    """A worker that refuses the new plan costs nothing but the attempt."""
    plans = Plans(("d2", 0.1))
    lab, session = start(stack, plans)

    def refuse() -> None:
        raise RuntimeError("no room")

    limit_memory(lab.workers["d2"], refuse)
    run_until(session, lambda: "failed" in outcomes(session))
    assert "no room" in session.changes[0].detail
    assert plans.key == "d1"


def test_the_old_plan_comes_back_when_its_successor_is_refused(stack: ExitStack) -> None:
    """After the old plan made room in vain it is loaded again, and no request is lost."""
    plans = Plans(("big", 0.1))
    lab, session = start(stack, plans, replace(OPTIONS, trial=0), memory=7)
    refused = threading.Event()

    def refuse_once() -> None:
        if not refused.is_set():
            refused.set()
            raise RuntimeError("no room")

    limit_memory(lab.workers["d1"], refuse_once)
    plans.compile = lambda key: through("d1")  # type: ignore[method-assign]
    first = session.deployment.epoch
    run_until(session, lambda: "failed" in outcomes(session) and session.deployment.epoch != first)
    assert plans.key == "d1" or "switched" in outcomes(session)


def test_a_plan_with_a_missing_worker_is_not_taken(stack: ExitStack) -> None:
    """A device that is gone and that the running plan does not use ends no run."""
    plans = Plans(("d2", 0.1))
    lab, session = start(stack, plans)
    lab.fabric.kill("d2")
    run_until(session, lambda: "failed" in outcomes(session))
    assert "d2" in session.changes[0].detail


def test_a_silent_link_is_probed_and_its_recovery_noticed(stack: ExitStack) -> None:
    """A link that the running plan does not use is measured by a message now and then."""
    plans = Plans(("d1", 1.0))
    plans.assumed = Conditions({("d0", "d2"): 2e5}, {})
    options = AdaptOptions(
        threshold=0.5, hold_s=0.02, window_s=0.02, pause_s=0.0, probe_s=0.05, trial=0
    )
    _, session = start(stack, plans, options, back=2e6)
    run_until(session, lambda: bool(plans.asked))
    # A busy machine measures less than the link carries, never more.
    assert 3e5 < plans.asked[0].rates["d0", "d2"] < 3e6


def test_searches_of_months_are_counted_and_the_last_ones_listed(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks on is told of the last ones, and of how many there were."""
    monkeypatch.setattr(change_log, "MOST_CHANGES", 1)
    options = replace(OPTIONS, threshold=math.inf, every_s=0.001)
    _, session = start(stack, Plans(("d1", 1.0)), options)
    run_until(session, lambda: session.sample().outcomes.get("kept", 0) >= 5)
    assert len(session.changes) <= 3


def test_without_adapting_nothing_changes(stack: ExitStack) -> None:
    """A session that was not asked to adapt has no changes, and its traces still begin."""
    links = [Link("d0", "d1", FAST), Link("d1", "d0", FAST)]
    lab = stack.enter_context(memory_lab([Device("d0"), Device("d1")], links=links))
    session = stack.enter_context(deploy(through("d1"), lab.endpoint))
    run_until(session, lambda: True, least=3)
    assert session.changes == []


@pytest.mark.parametrize(("predicted_s", "place"), [(0.1, "d2"), (1.0, "d0")])
def test_what_stands_by_gives_way_to_what_is_better(
    stack: ExitStack, predicted_s: float, place: str
) -> None:
    """It answers at once after a loss; a plan is sought beside it, and taken where it gains."""
    plans = Plans(("d2", predicted_s))
    plans.assumed = Conditions()
    lab = stack.enter_context(memory_lab([Device(name) for name in ("d0", "d1", "d2")]))
    deployed = DeployOptions(repeats=1, wait_s=0.2, silence_s=0.2)

    def recover(lost: Lost) -> Tiny:
        plans.key, plans.stood_by = "d0", True
        return through("d0")

    options = replace(OPTIONS, threshold=math.inf, trial=0)
    session = stack.enter_context(
        deploy(
            through("d1"),
            lab.endpoint,
            deployed,
            replan=recover,
            adapting=(plans, options),
            standby=through("d0"),
        )
    )
    killed: list[str] = []

    def is_over() -> bool:
        if not killed:
            killed.append("d1")
            lab.fabric.kill(*killed)
        return len(session.changes) > 1 and session.changes[1].outcome in ("switched", "kept")

    run_until(session, is_over, least=3)
    recovered, sought = session.changes[:2]
    assert recovered.outcome == "recovered"
    assert "stood by" in sought.why
    assert sought.outcome == ("switched" if place == "d2" else "kept")
    assert len(plans.asked) == 1
    assert place in {part.device for part in session.program.devices}
