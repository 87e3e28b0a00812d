"""For how long workers have said nothing, by a clock that counts while the leader listens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from partita.fabric import AwakeClock

#: Five of the ticks that a leader gives itself. Not tuned.
_MOST_S = 0.5


class Heartbeats:
    """When each worker that is expected to beat did so last.

    Whatever beats, the leader itself among it, comes one after the other: once it is taken, so is
    what came before.
    """

    def __init__(self) -> None:
        self._clock = AwakeClock(_MOST_S, time.monotonic())
        #: By device: on the clock of silence, and on the monotonic one.
        self._heard_s: dict[str, tuple[float, float]] = {}

    @property
    def now_s(self) -> float:
        """The time on the clock of silence."""
        return self._clock.read(time.monotonic())

    def expect(self, names: Iterable[str]) -> None:
        """Expect heartbeats of ``names``; their silence counts from now on."""
        self._heard_s |= dict.fromkeys(names, (self.now_s, time.monotonic()))

    def excuse(self, names: Iterable[str]) -> None:
        """Expect none of ``names`` any more."""
        idle = set(names)
        self._heard_s = {name: at_s for name, at_s in self._heard_s.items() if name not in idle}

    def hear(self, name: str) -> None:
        """Take a heartbeat; one that is not expected says nothing but that the leader listens."""
        now_s = time.monotonic()
        self._clock.tick(now_s)
        if name in self._heard_s:
            self._heard_s[name] = (self._clock.read(now_s), now_s)

    def have_beaten(self, names: Iterable[str], since_s: float) -> bool:
        """Whether all of ``names`` are known to be alive after ``since_s``."""
        return all(self._heard_s.get(name, (0.0, 0.0))[1] > since_s for name in names)

    def silent(self, longer_than_s: float) -> Mapping[str, float]:
        """The seconds of silence of the workers that have been silent for longer."""
        now_s = self.now_s
        ages = {name: now_s - at_s for name, (at_s, _) in self._heard_s.items()}
        return {name: age_s for name, age_s in ages.items() if age_s > longer_than_s}
