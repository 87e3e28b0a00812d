"""The policy of changing plans, on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from partita.execution.adapt import (
    AdaptOptions,
    Answered,
    Conditions,
    Decision,
    Event,
    Failed,
    Joined,
    Measured,
    ProbeLink,
    Proposed,
    Replan,
    RollBack,
    Switch,
    Switched,
)
from partita.execution.policy import Policy

LINK = ("a", "b")
OPTIONS = AdaptOptions(
    threshold=0.25, hold_s=3.0, window_s=2.0, pause_s=2.0, trial=4, worse=0.05, probe_s=math.inf
)


class Bench:
    """A policy with a clock that ticks twice a second."""

    def __init__(self, options: AdaptOptions = OPTIONS, *, in_flight: int = 1) -> None:
        assumed = Conditions({LINK: 100.0}, {"a": 1.0})
        self.policy = Policy(assumed, "first", options, epoch=1, in_flight=in_flight)
        self.now_s = 0.0
        self.end_s = 0.0

    def tell(self, event: Event) -> list[Decision]:
        """Pass an event at the present time."""
        return self.policy.handle(self.now_s, event)

    def ticks(
        self, seconds: float, rate: float | None = 100.0, slowness: float = 1.0
    ) -> Iterator[Decision]:
        """Let time pass; yield what is decided."""
        for _ in range(round(seconds * 2)):
            self.now_s += 0.5
            rates = {} if rate is None else {LINK: rate}
            yield from self.tell(Measured(rates, {"a": slowness}))

    def pass_time(
        self, seconds: float, rate: float | None = 100.0, slowness: float = 1.0
    ) -> list[Decision]:
        """Let time pass; return what was decided."""
        return list(self.ticks(seconds, rate, slowness))

    def answers(
        self, count: int, latency_s: float, epoch: int, gap_s: float | None = None
    ) -> list[Decision]:
        """Have requests answered, ``gap_s`` after each other or one at a time, and told of now."""
        decisions = []
        for _ in range(count):
            self.end_s += latency_s if gap_s is None else gap_s
            decisions += self.tell(Answered(epoch, latency_s, self.end_s))
        return decisions


def drifted(new_s: float = 0.5, *, in_flight: int = 1) -> Bench:
    """Return a bench whose link has slowed down and that has switched to plan ``second``."""
    bench = Bench(in_flight=in_flight)
    bench.answers(1, 1.0, epoch=1)
    bench.pass_time(5)
    assert [d for d in bench.ticks(5, 40.0) if isinstance(d, Replan)]
    bench.answers(5, 1.0, epoch=1, gap_s=1.0 / in_flight)
    assert bench.tell(Proposed("second", new_s, 1.0)) == [Switch("second")]
    bench.tell(Switched(2))
    return bench


def test_a_steady_link_is_left_alone() -> None:
    """Within the threshold nothing is ever decided."""
    bench = Bench()
    assert bench.pass_time(60, 85.0, 1.2) == []


def test_a_drift_that_lasts_asks_for_a_plan_on_what_is_measured() -> None:
    """A step of the rate leads to one search, after the hold time, with the new rate assumed."""
    bench = Bench()
    bench.pass_time(5)
    assert bench.pass_time(3, 40.0) == []
    (decision,) = bench.pass_time(2, 40.0)
    assert isinstance(decision, Replan)
    assert decision.conditions.rates[LINK] == 40.0
    assert "a → b at 40%" in decision.why
    assert bench.pass_time(30, 40.0) == []


def test_a_short_outage_is_no_drift() -> None:
    """A drift that ends before the hold time is forgotten, however deep."""
    bench = Bench()
    for _ in range(5):
        assert bench.pass_time(5) == []
        assert bench.pass_time(2.5, 1.0) == []
        assert bench.pass_time(6) == []


def test_a_flicker_around_the_threshold_does_not_reset_the_drift() -> None:
    """Once off, a rate that swings between the threshold and half of it stays off."""
    bench = Bench()
    bench.pass_time(5)
    found: list[Decision] = []
    for _ in range(4):
        found += bench.pass_time(1, 70.0) + bench.pass_time(1, 83.0)
    assert [type(d) for d in found] == [Replan]


def test_a_slow_device_is_a_drift_too() -> None:
    """Step times count as rates do."""
    bench = Bench()
    (decision,) = bench.pass_time(8, slowness=2.0)
    assert isinstance(decision, Replan)
    assert decision.conditions.slowness["a"] == 2.0


@pytest.mark.parametrize(
    ("proposed", "reason"),
    [(Proposed("first", 0.5, 1.0), "still the best"), (Proposed("x", 0.99, 1.0), "too small")],
)
def test_what_gains_too_little_is_not_adopted(proposed: Proposed, reason: str) -> None:
    """The same plan, or one that promises almost nothing, changes nothing and is remembered."""
    bench = Bench()
    assert bench.pass_time(8, 40.0)
    assert bench.tell(proposed) == []
    assert bench.policy.changes[-1].outcome == "kept"
    assert reason in bench.policy.changes[-1].detail


def test_a_new_plan_that_measures_faster_stays() -> None:
    """After the trial the new plan is the running one, with both medians on record."""
    bench = drifted()
    assert bench.answers(5, 0.6, epoch=2) == []
    (change,) = bench.policy.changes
    assert (change.outcome, change.measured_old_s) == ("switched", 1.0)
    assert change.measured_new_s == pytest.approx(0.6)
    assert bench.policy.plan == "second"


def test_a_new_plan_that_measures_slower_is_rolled_back_and_barred() -> None:
    """It goes back to the old plan, and the same proposal is refused until something changes."""
    bench = drifted()
    assert bench.answers(5, 1.2, epoch=2) == [RollBack("first")]
    bench.tell(Switched(3))
    assert bench.policy.plan == "first"
    assert bench.policy.changes[-1].outcome == "rolled back"
    assert bench.pass_time(20, 40.0) == []
    assert [type(d) for d in bench.pass_time(6, 20.0)] == [Replan]
    assert bench.tell(Proposed("second", 0.5, 1.0)) == [Switch("second")]


@pytest.mark.parametrize(
    ("latency_s", "gap_s", "outcome"), [(1.6, 0.2, "switched"), (0.9, 0.3, "rolled back")]
)
def test_with_requests_in_flight_answers_per_second_judge(
    latency_s: float, gap_s: float, outcome: str
) -> None:
    """Four in flight, an answer each 0.25 s before: more of them count, not what each waited."""
    bench = drifted(in_flight=4)
    assert bench.policy.changes[-1].measured_old_s == pytest.approx(0.25)
    assert bench.answers(4, 9.0, epoch=2, gap_s=5.0) == []  # the first few fill the devices
    bench.answers(15, latency_s, epoch=2, gap_s=gap_s)
    assert bench.policy.changes[-1].measured_new_s is None
    bench.answers(1, latency_s, epoch=2, gap_s=gap_s)
    assert bench.policy.changes[-1].measured_new_s == pytest.approx(gap_s)
    assert bench.policy.changes[-1].outcome == outcome


def test_bursts_of_replicas_count_by_their_mean() -> None:
    """Answers that come three together have no gap of their own to judge by."""
    bench = drifted(in_flight=3)
    for _ in range(5):
        bench.answers(1, 1.2, epoch=2, gap_s=1.2)
        bench.answers(2, 1.2, epoch=2, gap_s=0.0)
    assert bench.policy.changes[-1].measured_new_s == pytest.approx(0.4)
    assert bench.policy.changes[-1].outcome == "rolled back"


def test_where_inputs_come_slowly_requests_do_not_overlap() -> None:
    """A camera that gives an image a second is answered as fast as each is computed."""
    bench = drifted(in_flight=4)
    bench.answers(4 * 5, 0.2, epoch=2, gap_s=1.0)
    assert bench.policy.changes[-1].measured_new_s == pytest.approx(0.2)
    assert bench.policy.changes[-1].outcome == "switched"


def test_a_barred_plan_stays_barred_when_only_time_passes() -> None:
    """A search under unchanged conditions may not bring the same plan back."""
    bench = drifted()
    bench.answers(5, 1.2, epoch=2)
    bench.tell(Switched(3))
    assert [type(d) for d in bench.pass_time(9, 40.0, 1.3)] == [Replan]
    bench.pass_time(4, 40.0, 1.2)
    assert bench.tell(Proposed("second", 0.5, 1.0)) == []
    assert "rolled back under these conditions" in bench.policy.changes[-1].detail


def test_a_change_during_the_trial_ends_it_without_a_verdict() -> None:
    """Old and new are not compared across a change of conditions: a new search begins."""
    bench = drifted()
    bench.answers(2, 3.0, epoch=2)
    assert [type(d) for d in bench.pass_time(9, 15.0)] == [Replan]
    assert "conditions changed" in bench.policy.changes[0].detail


def test_answers_of_the_old_epoch_do_not_count_for_the_new_plan() -> None:
    """Requests that were under way at the switch judge nothing."""
    bench = drifted()
    assert bench.answers(20, 9.0, epoch=1) == []
    assert bench.policy.changes[-1].measured_new_s is None


def test_a_failed_preparation_leaves_the_old_plan() -> None:
    """A plan that cannot be prepared is not tried again at once, and the search goes on later."""
    bench = Bench()
    assert bench.pass_time(8, 40.0)
    assert bench.tell(Proposed("second", 0.5, 1.0)) == [Switch("second")]
    bench.tell(Failed("no room"))
    assert (bench.policy.plan, bench.policy.changes[-1].detail) == ("first", "no room")
    assert [type(d) for d in bench.pass_time(9, 20.0)] == [Replan]


def test_a_failed_way_back_leaves_the_new_plan() -> None:
    """When the old plan cannot be brought back, what runs is named."""
    bench = drifted()
    bench.answers(5, 1.2, epoch=2)
    bench.tell(Failed("gone"))
    assert bench.policy.plan == "second"


def test_drifts_during_a_search_wait_for_its_end() -> None:
    """One search at a time; what changed meanwhile starts the next one after the pause."""
    bench = Bench()
    assert bench.pass_time(8, 40.0)
    assert bench.pass_time(20, 10.0) == []
    assert bench.tell(Proposed("first", 1.0, 1.0)) == []
    decisions = bench.pass_time(4, 10.0)
    assert [type(d) for d in decisions] == [Replan]


def test_silent_links_are_probed_one_at_a_time() -> None:
    """A link without traffic is measured now and then, and a recovery is noticed by two probes."""
    options = AdaptOptions(probe_s=4.0, hold_s=1.0)
    policy = Policy(Conditions({LINK: 100.0, ("b", "a"): 100.0}), "first", options)
    seen: list[Decision] = []
    for tick in range(60):
        for decision in policy.handle(tick / 2, Measured()):
            seen.append(decision)
            if isinstance(decision, ProbeLink):
                seen += policy.handle(tick / 2, Measured({decision.pair: 300.0}))
    probed = [d.pair for d in seen if isinstance(d, ProbeLink)]
    assert set(probed) == {LINK, ("b", "a")}
    assert len(probed) <= 20
    assert any(isinstance(d, Replan) for d in seen)


def test_a_search_waits_for_the_links_that_were_not_measured_since() -> None:
    """What slowed one link may have slowed others: the search gets what probes find there."""
    other = ("b", "a")
    options = AdaptOptions(probe_s=1000.0, hold_s=2.0, window_s=1.0)
    policy = Policy(Conditions({LINK: 100.0, other: 100.0}), "first", options)
    seen: list[Decision] = []
    for tick in range(40):
        rate = 100.0 if tick < 10 else 20.0
        for decision in policy.handle(tick / 2, Measured({LINK: rate})):
            seen.append(decision)
            if isinstance(decision, ProbeLink):
                seen += policy.handle(tick / 2, Measured({decision.pair: 10.0}))
    assert seen[0] == ProbeLink(other)
    assert isinstance(seen[1], Replan)
    assert seen[1].conditions.rates == {LINK: 20.0, other: 10.0}


def test_a_period_replans_without_drift() -> None:
    """With a period the search comes again and again, whatever is measured."""
    bench = Bench(AdaptOptions(every_s=10.0, threshold=1e9, pause_s=0.0, trial=0))
    searches = 0
    for decision in bench.ticks(60):
        if isinstance(decision, Replan):
            searches += 1
            bench.tell(Proposed("first", 1.0, 1.0))
    assert searches == 6


def test_a_reason_given_at_the_start_asks_for_one_plan_at_once() -> None:
    """Nothing has drifted; what is found is weighed as ever, and asked for no second time."""
    policy = Policy(Conditions({LINK: 100.0}), "spare", OPTIONS, why="what stood by runs")
    assert policy.handle(0.0, Measured()) == [Replan(policy.assumed, "what stood by runs")]
    assert policy.handle(0.1, Proposed("spare", 1.0, 1.0)) == []
    assert policy.changes[0].outcome == "kept"
    assert [d for tenths in range(1, 200) for d in policy.handle(tenths / 10, Measured())] == []


def test_a_device_that_comes_is_a_reason_to_search() -> None:
    """It and its links are assumed as told; from then on they are watched as others are."""
    bench = Bench()
    bench.pass_time(5)
    joined = Joined("c", Conditions({("a", "c"): 70.0, LINK: 1.0}, {"c": 2.0}))
    assert bench.tell(joined) == []
    assert not bench.policy.is_settled
    (decision,) = bench.pass_time(1)
    assert isinstance(decision, Replan)
    assert decision.why == "device c is there"
    assert decision.conditions.rates == {LINK: 100.0, ("a", "c"): 70.0}
    assert decision.conditions.slowness["c"] == 2.0
    assert bench.tell(Proposed("second", 0.5, 1.0)) == [Switch("second")]


def test_a_device_that_comes_during_a_trial_waits_for_its_end() -> None:
    """What is on trial is judged first; the search comes after the pause."""
    bench = drifted()
    bench.tell(Joined("c", Conditions({}, {"c": 1.0})))
    assert bench.policy.pending == "device c is there"
    assert bench.answers(5, 0.6, epoch=2) == []
    assert bench.policy.changes[-1].outcome == "switched"
    assert [type(d) for d in bench.pass_time(8, 40.0)] == [Replan]
    assert bench.policy.pending == ""
