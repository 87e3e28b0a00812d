"""Events, decisions and records of changing plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from partita.execution.durations import Pair


@dataclass(frozen=True)
class AdaptOptions:
    """When to plan again, and when to keep the result.

    Attributes:
        threshold: A rate or speed that differs by more than this fraction, up or down, drifts; it
            has come back when it differs by less than half of it.
        hold_s: A drift shorter than this is no reason to plan.
        window_s: The median of the measurements of so many seconds counts.
        pause_s: Least time from the end of one change to the next search.
        least_gain: A new plan must promise to be faster by this fraction.
        trial: Answers by which a new plan is judged, for each request that may be in flight; 0
            trusts the prediction.
        worse: A new plan that measures slower than the old one by more than this is rolled back.
        probe_s: A link without measurement for so long is probed; infinite probes none.
        every_s: Plan again after so many seconds in any case; None on drifts only.
    """

    threshold: float = 0.25
    hold_s: float = 3.0
    window_s: float = 2.0
    pause_s: float = 3.0
    least_gain: float = 0.03
    trial: int = 8
    worse: float = 0.03
    probe_s: float = 5.0
    every_s: float | None = None


#: No drift is a reason to plan anew: losses and devices that come are.
LOSSES_ONLY = AdaptOptions(threshold=inf, probe_s=inf)


@dataclass(frozen=True)
class Conditions:
    """Rates and speeds that a plan is priced with.

    Attributes:
        rates: Bytes per second per link.
        slowness: Per device, seconds per second of its profile; 1 where absent.
    """

    rates: Mapping[Pair, float] = field(default_factory=dict)
    slowness: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """Measurements since the last event, as in :class:`Conditions`; absent means unknown."""

    rates: Mapping[Pair, float] = field(default_factory=dict)
    slowness: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """A request was answered under an epoch; answers come in the order of ``end_s``."""

    epoch: int
    latency_s: float
    end_s: float


@dataclass(frozen=True)
class Joined:
    """A device may be used that could not before: it came, or came back.

    Attributes:
        conditions: Of it and its links until they are measured; others are known already.
    """

    device: str
    conditions: Conditions


@dataclass(frozen=True)
class Proposed:
    """A search has ended.

    Attributes:
        key: Identity of the plan that it found.
        predicted_s: Seconds per answer of that plan under the conditions that it was made for:
            the latency with one request in flight, the period under load with more.
        present_s: The same of the running plan under the same conditions.
    """

    key: str
    predicted_s: float
    present_s: float
    search_s: float = 0.0


@dataclass(frozen=True)
class Switched:
    """Requests are admitted under a new epoch, of the plan that was asked for."""

    epoch: int


@dataclass(frozen=True)
class Failed:
    """A search found nothing, or a plan could not be prepared; the old one runs on."""

    why: str


@dataclass(frozen=True)
class Replan:
    """Search for a plan for the conditions of now."""

    conditions: Conditions
    why: str


@dataclass(frozen=True)
class Switch:
    """Prepare this plan, admit under it, retire the old one after its last answer."""

    key: str


@dataclass(frozen=True)
class RollBack:
    """As :class:`Switch`, to the plan that ran before."""

    key: str


@dataclass(frozen=True)
class ProbeLink:
    """Measure a link that carries nothing."""

    pair: Pair


Event = Measured | Answered | Joined | Proposed | Switched | Failed
Decision = Replan | Switch | RollBack | ProbeLink


@dataclass(frozen=True)
class Change:
    """One search, recovery or deployment, or the end of a session, and what came of it.

    Attributes:
        at_s: When the search was decided, or the loss found, on the caller's clock.
        why: Which drift or loss, for people.
        outcome: ``searching``, ``kept``, ``switching``, ``switched``, ``rolled back``, ``failed``,
            ``recovered``, ``drained``, ``deployed``, ``ended``.
        detail: Why it came to that; empty where nothing needs saying.
        switched_s: When requests were first admitted under the new plan; None where none were.
        predicted_old_s: Seconds per answer of the running plan under the drift, as predicted.
        predicted_new_s: Seconds per answer of the plan that was found, as predicted.
        measured_old_s: Seconds per answer of the running plan since the drift began.
        measured_new_s: Seconds per answer of the new plan in its trial.
        again: Of a recovery, requests that were fed again because their answers were lost.
        answered_s: Of a recovery, when the first answer came after it; None where none did.
    """

    at_s: float
    why: str
    outcome: str = "searching"
    detail: str = ""
    search_s: float = 0.0
    switched_s: float | None = None
    predicted_old_s: float | None = None
    predicted_new_s: float | None = None
    measured_old_s: float | None = None
    measured_new_s: float | None = None
    again: int = 0
    answered_s: float | None = None

    @property
    def outage_s(self) -> float | None:
        """Of a recovery, the seconds from the news of the loss to the next answer."""
        return None if self.answered_s is None else self.answered_s - self.at_s

    def shifted(self, origin_s: float) -> Change:
        """The change with its times counted from ``origin_s``."""
        switched_s, answered_s = (
            None if time_s is None else time_s - origin_s
            for time_s in (self.switched_s, self.answered_s)
        )
        at_s = self.at_s - origin_s
        return replace(self, at_s=at_s, switched_s=switched_s, answered_s=answered_s)
