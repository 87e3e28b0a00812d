"""Totals that workers report, folded into what is going on: no clock, no input or output."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from partita.execution import Change
from partita.leader import Sample
from partita.live.snapshot import DeviceState, DeviceView, Event, LinkView, Scene, Snapshot
from partita.report.bottleneck import Where, describe_bottleneck, find_bottleneck
from partita.report.changes import describe_outcome
from partita.worker.messages import Stats

#: Shares and rates are those of the last seconds: at two samples a second they are steady to a
#: tenth, and new within a glance. Requests that take longer need to be seen more than once.
_WINDOW_S, _LONGEST_S, _REQUESTS = 5.0, 60.0, 3
#: Answers whose latencies count: those of a minute at 17 per second.
_ANSWERS = 1000
#: More links than this nobody reads; a cluster of 32 has a thousand.
_MOST_LINKS = 40
#: Events that are shown.
MOST_EVENTS = 20
#: A lane that is busy for less bounds nothing: requests come too seldom, or wait for each other. At
#: full load the busiest lane of a plan is above; shares of some seconds are right to a tenth.
_BOUNDS = 0.7


class LiveState:
    """Folds samples of a session, one after the other, into snapshots.

    Attributes:
        answers: How many the last sample had: the next one is asked for the latencies since then.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._past, self._outcomes = 0, Counter[str]()
        self._last: Sample | None = None
        self._samples: deque[Sample] = deque()
        self._latencies_s: deque[float] = deque(maxlen=_ANSWERS)

    def fold(self, sample: Sample, scene: Scene | None) -> Snapshot:
        """What is seen once a sample is there.

        Args:
            sample: Taken after those before.
            scene: What is known of its plan.
        """
        if self._last is not None and sample.answers < self.answers:
            self._begin_anew(self._last)
        if not self._samples or self._samples[-1].plan != sample.plan:
            self._latencies_s.clear()
        self._latencies_s.extend(sample.latencies_s)
        self._last, self.answers = sample, sample.answers
        ordered = sorted(self._latencies_s)
        self._keep(sample, _quantile(ordered, 0.5) or 0.0)
        devices = tuple(self._view_devices(sample, scene))
        links = sorted(
            self._view_links(sample, scene), key=lambda view: (-(view.load or 0), -view.bytes_per_s)
        )
        return Snapshot(
            at_s=sample.at_s,
            title="" if scene is None else scene.title,
            plan=sample.plan,
            answers=self._past + sample.answers,
            open=sample.open,
            waiting=sample.waiting,
            in_flight=sample.in_flight,
            images_per_s=self._rate(sample),
            p50_s=_quantile(ordered, 0.5),
            p99_s=_quantile(ordered, 0.99),
            expected=None if scene is None else scene.expected,
            devices=devices,
            links=tuple(links[:_MOST_LINKS]),
            link_count=len(links),
            events=tuple(_list_events(sample.changes)),
            advice=tuple(_advise(devices, links, scene)),
            outcomes=dict(self._outcomes + Counter(sample.outcomes)),
            down=sample.down,
        )

    def _begin_anew(self, last: Sample) -> None:
        """Go on with a leader that took the place of another, whose process is gone.

        What was counted stays; its clock may be another one.
        """
        self._samples.clear()
        self._latencies_s.clear()
        self._past += last.answers
        self._outcomes += Counter(last.outcomes)

    def _keep(self, sample: Sample, usual_s: float) -> None:
        """Add a sample, and drop those that are before the window but one."""
        window_s = min(max(_WINDOW_S, _REQUESTS * usual_s), _LONGEST_S)
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].at_s <= sample.at_s - window_s:
            self._samples.popleft()

    def _before(self, sample: Sample) -> Sample | None:
        """The oldest sample of the window under the same plan; None where this is the first."""
        first = next(one for one in self._samples if one.epoch == sample.epoch)
        return first if first.at_s < sample.at_s else None

    def _rate(self, sample: Sample) -> float | None:
        first = self._samples[0]
        seconds = sample.at_s - first.at_s
        return (sample.answers - first.answers) / seconds if seconds > 0 else None

    def _view_devices(self, sample: Sample, scene: Scene | None) -> Iterable[DeviceView]:
        before = self._before(sample)
        kinds = {} if scene is None else scene.kinds
        expected = {} if scene is None or scene.expected is None else scene.expected.busy
        for name in dict.fromkeys([*kinds, *sample.devices, *sample.lost.devices]):
            now = sample.stats.get(name)
            view = DeviceView(name, kinds.get(name, ""), _state_of(name, sample))
            if now is None:
                yield view
                continue
            old = None if before is None else before.stats.get(name)
            seconds = 0.0 if before is None else sample.at_s - before.at_s
            yield DeviceView(
                name,
                view.kind,
                view.state,
                None if old is None else min(1.0, (now.busy_s - old.busy_s) / seconds),
                expected.get(name),
                _mean_depth(now, old),
                now.resident_bytes or now.weight_bytes + now.piece_bytes,
                sample.memory_limit_bytes.get(name, 0),
            )

    def _view_links(self, sample: Sample, scene: Scene | None) -> Iterable[LinkView]:
        before = self._before(sample)
        rates = {} if scene is None else {(a, b): rate for a, b, rate in scene.rates}
        known = None if scene is None else scene.expected
        expected = {} if known is None else {(a, b): rate for a, b, rate in known.bytes_per_s}
        sent = _sent_bytes(sample)
        old = {} if before is None else _sent_bytes(before)
        seconds = 0.0 if before is None else sample.at_s - before.at_s
        for pair in dict.fromkeys([*expected, *sent]):
            moved = sent.get(pair, 0) - old.get(pair, sent.get(pair, 0))
            bytes_per_s = moved / seconds if seconds > 0 else 0.0
            rate = rates.get(pair)
            most = expected.get(pair)
            yield LinkView(
                *pair,
                bytes_per_s,
                bytes_per_s / rate if rate else None,
                most / rate if rate and most is not None else None,
            )


def _state_of(name: str, sample: Sample) -> DeviceState:
    if name in sample.lost.devices:
        return "lost"
    if name not in sample.devices:
        return "idle"
    return "runs" if name in sample.stats else "silent"


def _sent_bytes(sample: Sample) -> dict[tuple[str, str], int]:
    """Bytes that devices sent to devices; answers go to the leader, which is none."""
    return {
        (name, sent.target): sent.bytes
        for name, totals in sample.stats.items()
        for sent in totals.sent
        if sent.target in sample.devices
    }


def _mean_depth(now: Stats, old: Stats | None) -> float:
    """How many others steps found on the compute lane; of those counted together, the fewest."""
    found = _depths(now)
    if old is not None:
        found = [after - before for after, before in zip(found, _depths(old), strict=True)]
    count = sum(found)
    return sum(((1 << n) >> 1) * many for n, many in enumerate(found)) / count if count else 0.0


def _depths(stats: Stats) -> Sequence[int]:
    return next((queue.found for queue in stats.queues if queue.lane == "compute"), ())


def _quantile(ordered: Sequence[float], fraction: float) -> float | None:
    """The latency that so many do not exceed (nearest rank)."""
    return ordered[max(math.ceil(fraction * len(ordered)), 1) - 1] if ordered else None


def _list_events(changes: Sequence[Change]) -> Iterable[Event]:
    """The last changes of plan, the newest first."""
    for change in reversed(changes[-MOST_EVENTS:]):
        yield Event(change.at_s, change.outcome, f"{change.why} – {describe_outcome(change)}")


def _advise(
    devices: Iterable[DeviceView], links: Iterable[LinkView], scene: Scene | None
) -> Iterable[str]:
    """The bottleneck as measured, and what simulation says that more of it would gain."""
    shares: dict[Where, float] = {(view.name,): view.busy for view in devices if view.busy}
    shares |= {(view.source, view.target): view.load for view in links if view.load}
    where = find_bottleneck(shares)
    if where is None or shares[where] < _BOUNDS:
        return
    gains = {} if scene is None else dict(scene.advice)
    words = describe_bottleneck(shares)
    yield f"{words}; {gains[where]}" if where in gains else words
