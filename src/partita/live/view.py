"""The snapshot of a session, made when somebody asks, and no more often than anybody can read."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from partita.leader import Sample
from partita.live.snapshot import Event, Scene, Snapshot
from partita.live.state import MOST_EVENTS, LiveState
from partita.recent import Recent

#: Who asks twice a second gets news each time; more viewers cost no more.
_FRESH_S = 0.4
#: Plans that are described; there and back again is what happens most.
_MOST_SCENES = 8


class LiveView:
    """What viewers of one session share. Nobody is asked while nobody looks.

    Args:
        take: Takes a sample with the latencies since an answer, as ``Session.sample``.
        describe: What is known of the plan with a hash; asked again while that is nothing.
    """

    def __init__(
        self, take: Callable[[int], Sample], describe: Callable[[str], Scene | None]
    ) -> None:
        self._take, self._describe = take, describe
        self._state = LiveState()
        self._lock = threading.Lock()
        self._scenes = Recent[str, Scene](_MOST_SCENES)
        self._last: Snapshot | None = None
        self._last_s = 0.0
        self._notes: deque[Event] = deque(maxlen=MOST_EVENTS)

    def snapshot(self) -> Snapshot:
        """The session now; a few tenths of a second old where others look, too.

        Raises:
            RunError: The session cannot be asked.
        """
        with self._lock:
            if self._last is None or time.monotonic() - self._last_s >= _FRESH_S:
                sample = self._take(self._state.answers)
                seen = self._state.fold(sample, self._scene(sample.plan))
                self._last_s = time.monotonic()
                self._last = self._with_notes(seen, self._last_s)
            return self._last

    def note(self, kind: str, text: str) -> None:
        """Add an event that no leader can tell, such as its own loss."""
        self._notes.append(Event(time.monotonic(), kind, text))

    def _with_notes(self, seen: Snapshot, now_s: float) -> Snapshot:
        """The snapshot with the viewer's own events, on the leader's clock."""
        notes = [Event(seen.at_s - (now_s - at.at_s), at.kind, at.text) for at in self._notes]
        events = sorted([*seen.events, *notes], key=lambda event: -event.at_s)
        return msgspec.structs.replace(seen, events=tuple(events[:MOST_EVENTS]))

    def scene(self) -> Scene | None:
        """What is known of the plan that runs."""
        return self._scene(self.snapshot().plan)

    def _scene(self, plan: str) -> Scene | None:
        scene = self._scenes.get(plan) or self._describe(plan)
        if scene is not None:
            self._scenes[plan] = scene
        return scene
