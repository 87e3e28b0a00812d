"""When a running plan gives way to another: measurements in, decisions out, no I/O and no clock.

One policy for both worlds: the leader drives it with what workers report, the simulation with what
a virtual clock says.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from statistics import fmean, median

from partita.execution.adapt import (
    AdaptOptions,
    Answered,
    Change,
    Conditions,
    Decision,
    Event,
    Joined,
    Measured,
    ProbeLink,
    Proposed,
    Replan,
    RollBack,
    Switch,
    Switched,
)
from partita.execution.drift_detector import DriftDetector
from partita.execution.durations import Pair
from partita.recent import Recent

#: Answers kept for a comparison: those of a drift's hold time at 80 answers/s; more tell no more.
_ANSWERS = 256
#: Plans that were rolled back and are not tried again soon. Not tuned.
_MOST_BARRED = 64
#: Drifts named in a reason: one line of a terminal.
_NAMED = 2
#: A search waits at most so many hold times for links that were not measured since a drift began.
_PATIENCE = 2


class Policy:
    """Decides about changes of plan; see :meth:`handle`.

    Args:
        assumed: What the running plan was priced with; absent links are not watched.
        plan: Identity of the running plan.
        in_flight: Most requests at the same time. With more than one, what counts is the mean time
            from answer to answer, since a request's latency then says how long it queued; with one
            it is the median latency.
        why: The reason for a first search at once, if there is one.

    Attributes:
        changes: All searches so far, in order.
        plan: Identity of the plan that requests are admitted under.
    """

    def __init__(
        self,
        assumed: Conditions,
        plan: str,
        options: AdaptOptions | None = None,
        *,
        epoch: int = 0,
        in_flight: int = 1,
        why: str = "",
    ) -> None:
        self._why = why
        self.options = options or AdaptOptions()
        self.changes: list[Change] = []
        self.plan = plan
        self._epoch = epoch
        self._in_flight = in_flight
        self._links = {pair: DriftDetector(rate) for pair, rate in assumed.rates.items()}
        self._devices = {name: DriftDetector(factor) for name, factor in assumed.slowness.items()}
        self._state = "watching"
        self._quiet_until_s = -math.inf
        self._last_search_s = -math.inf
        self._answers: deque[tuple[float, float]] = deque(maxlen=_ANSWERS)
        self._trial: list[float] = []
        self._answered_s = -math.inf
        self._drift_s = -math.inf
        self._old_plan = plan
        self._target = plan
        self._barred = Recent[str, Conditions](_MOST_BARRED)
        self._probed_s: dict[Pair, float] = {}

    @property
    def assumed(self) -> Conditions:
        """What the last search was made for; before the first, what the policy began with."""
        return Conditions(
            {pair: detector.assumed for pair, detector in self._links.items()},
            {name: detector.assumed for name, detector in self._devices.items()},
        )

    @property
    def current(self) -> Conditions:
        """The current values; the assumed ones where nothing was measured."""
        return Conditions(
            {pair: detector.current for pair, detector in self._links.items()},
            {name: detector.current for name, detector in self._devices.items()},
        )

    @property
    def is_settled(self) -> bool:
        """Whether no search, change or trial is under way, and none is to begin at once."""
        return self._state == "watching" and not self._why

    @property
    def pending(self) -> str:
        """Why there is to be a search that has not begun; empty where nothing asks for one."""
        return self._why

    def handle(self, now_s: float, event: Event) -> list[Decision]:
        """The decisions after ``event``; times must not decrease.

        Args:
            event: ``Measured`` must come regularly, empty if need be.
        """
        if isinstance(event, Measured):
            return self._measure(now_s, event)
        if isinstance(event, Answered):
            return self._answer(now_s, event)
        if isinstance(event, Proposed):
            return self._weigh(now_s, event)
        if isinstance(event, Joined):
            self._join(event)
        elif isinstance(event, Switched):
            self._enter(now_s, event.epoch)
        else:
            self._give_up(now_s, event.why)
        return []

    def _join(self, event: Joined) -> None:
        """Watch a device and its links, too, and search as soon as nothing else is under way."""
        for pair, rate in event.conditions.rates.items():
            self._links.setdefault(pair, DriftDetector(rate))
        for name, factor in event.conditions.slowness.items():
            self._devices.setdefault(name, DriftDetector(factor))
        self._why = "; ".join(filter(None, (self._why, f"device {event.device} is there")))

    def _measure(self, now_s: float, event: Measured) -> list[Decision]:
        options = self.options
        for pair, rate in event.rates.items():
            if pair in self._links:
                self._links[pair].add(now_s, rate)
        for name, factor in event.slowness.items():
            if name in self._devices:
                self._devices[name].add(now_s, factor)
        for detector in self._detectors():
            detector.judge(now_s, options.threshold, options.window_s)
        if self._state == "trial" and self._find_drifts(now_s):
            self._end_trial(now_s, "no verdict: conditions changed during the trial")
        decisions: list[Decision] = list(self._probes(now_s))
        if self._state == "watching" and now_s >= self._quiet_until_s:
            decisions += self._watch(now_s)
        return decisions

    def _watch(self, now_s: float) -> list[Decision]:
        drifts = self._find_drifts(now_s)
        every_s = self.options.every_s
        is_due = every_s is not None and now_s - self._last_search_s >= every_s
        if not (is_due or self._why) and (not drifts or self._is_half_seen(now_s)):
            return []
        why = self._why or _name_drifts(drifts) or f"{every_s:g} s have passed"
        self._why = ""
        begin_s = self._begin_of_drift()
        self._drift_s = now_s - self.options.window_s if begin_s is None else begin_s
        for detector in self._detectors():
            detector.accept()
        self._state = "searching"
        self._last_search_s = now_s
        self.changes.append(Change(now_s, why))
        return [Replan(self.assumed, why)]

    def _begin_of_drift(self) -> float | None:
        """The time of the first drift that lasts; None where there is none."""
        begins = [
            detector.since_s for detector in self._detectors() if detector.since_s is not None
        ]
        return min(begins, default=None)

    def _is_half_seen(self, now_s: float) -> bool:
        """Whether to wait for probes: what made one link drift may have made others, too."""
        begin_s = self._begin_of_drift()
        if begin_s is None or math.isinf(self.options.probe_s):
            return False
        is_unseen = any(detector.seen_s < begin_s for detector in self._links.values())
        return is_unseen and now_s - begin_s < _PATIENCE * self.options.hold_s

    def _find_drifts(self, now_s: float) -> list[str]:
        """The drifts that last, in words, the largest first."""
        hold_s = self.options.hold_s
        drifts: list[tuple[float, str]] = []
        for (source, target), detector in self._links.items():
            if detector.has_lasted(now_s, hold_s):
                share = detector.current / detector.assumed
                words = f"link {source} → {target} at {share:.0%} of its rate"
                drifts.append((-abs(math.log(share)), words))
        for name, detector in self._devices.items():
            if detector.has_lasted(now_s, hold_s):
                share = detector.current / detector.assumed
                words = f"device {name} takes {share:.2f} times as long"
                drifts.append((-abs(math.log(share)), words))
        return [words for _, words in sorted(drifts)]

    def _probes(self, now_s: float) -> list[ProbeLink]:
        """The link that was silent for longest, if that is too long."""
        patience_s = self.options.probe_s
        if math.isinf(patience_s):
            return []
        begin_s = self._begin_of_drift() if self._state == "watching" else None
        stale: list[tuple[float, Pair]] = []
        for pair, detector in self._links.items():
            first_s = self._probed_s.setdefault(pair, now_s - patience_s / 2)
            last_s = max(detector.seen_s, first_s)
            allowed_s = patience_s / 4 if detector.is_unconfirmed else patience_s
            if now_s - last_s >= allowed_s or (begin_s is not None and last_s < begin_s):
                stale.append((last_s, pair))
        if not stale:
            return []
        pair = min(stale)[1]
        self._probed_s[pair] = now_s
        return [ProbeLink(pair)]

    def _answer(self, now_s: float, event: Answered) -> list[Decision]:
        # Since the answer before, or since it was fed where nothing was under way then.
        spent_s = min(event.latency_s, max(0.0, event.end_s - self._answered_s))
        self._answered_s = event.end_s
        if event.epoch != self._epoch:
            return []
        if self._state != "trial":
            self._answers.append((now_s, spent_s))
            return []
        self._trial.append(spent_s)
        # The first answer pays for cold caches, the first few also for what both plans ran beside.
        passed = self._in_flight
        if len(self._trial) < passed * (1 + self.options.trial):
            return []
        new_s, old_s = self._per_answer(self._trial[passed:]), self.changes[-1].measured_old_s
        self._note(measured_new_s=new_s)
        if old_s is None or new_s <= old_s * (1 + self.options.worse):
            self._end_trial(now_s, "")
            return []
        self._barred[self.plan] = self.current
        self._target, self._state = self._old_plan, "returning"
        self._note(outcome="rolled back", detail="the new plan measured slower than the old one")
        return [RollBack(self._target)]

    def _per_answer(self, spent_s: list[float]) -> float:
        """Seconds per answer."""
        return median(spent_s) if self._in_flight == 1 else fmean(spent_s)

    def _weigh(self, now_s: float, event: Proposed) -> list[Decision]:
        self._note(
            predicted_old_s=event.present_s,
            predicted_new_s=event.predicted_s,
            search_s=event.search_s,
        )
        reason = ""
        if event.key == self.plan:
            reason = "the running plan is still the best found"
        elif event.predicted_s > event.present_s * (1 - self.options.least_gain):
            reason = "the gain would be too small"
        elif self._is_barred(event.key):
            reason = "that plan was rolled back under these conditions"
        if reason:
            self._note(outcome="kept", detail=reason)
            self._rest(now_s)
            return []
        self._target, self._state = event.key, "switching"
        self._note(outcome="switching")
        return [Switch(event.key)]

    def _is_barred(self, key: str) -> bool:
        """Whether a plan was rolled back, and nothing has changed since."""
        then = self._barred.get(key)
        if then is None:
            return False
        now, threshold = self.current, math.log1p(self.options.threshold)
        pairs = [
            *((then.rates[pair], rate) for pair, rate in now.rates.items()),
            *((then.slowness[name], factor) for name, factor in now.slowness.items()),
        ]
        return all(abs(math.log(b / a)) <= threshold for a, b in pairs)

    def _enter(self, now_s: float, epoch: int) -> None:
        """Begin the trial of a new plan; an old one that came back needs none."""
        self._epoch, self._old_plan, self.plan = epoch, self.plan, self._target
        if self._state == "returning":
            self._answers.clear()
            self._rest(now_s)
            return
        recent = [value for time_s, value in self._answers if time_s >= self._drift_s]
        old_s = self._per_answer(recent) if recent else None
        self._note(outcome="switched", switched_s=now_s, measured_old_s=old_s)
        self._answers.clear()
        self._trial = []
        if self.options.trial:
            self._state = "trial"
        else:
            self._rest(now_s)

    def _give_up(self, now_s: float, why: str) -> None:
        if self._state == "switching":
            self._barred[self._target] = self.current
        self._note(outcome="failed", detail=why)
        self._rest(now_s)

    def _end_trial(self, now_s: float, detail: str) -> None:
        self._answers.extend((now_s, value) for value in self._trial[self._in_flight :])
        self._note(detail=detail)
        self._rest(now_s)

    def _rest(self, now_s: float) -> None:
        self._state = "watching"
        self._quiet_until_s = now_s + self.options.pause_s

    def _note(self, **values: object) -> None:
        self.changes[-1] = replace(self.changes[-1], **values)  # type: ignore[arg-type]

    def _detectors(self) -> tuple[DriftDetector, ...]:
        return (*self._links.values(), *self._devices.values())


def _name_drifts(drifts: list[str]) -> str:
    """The largest drifts, and how many more there are."""
    more = len(drifts) - _NAMED
    return "; ".join(drifts[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
