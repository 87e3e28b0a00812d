"""Devices that came, or came back: they are used once they have been there for long enough."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from partita.errors import PartitaError, RunError, first_line
from partita.execution.adapt import Joined
from partita.leader.bench import WorkerBench
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.links import time_flows
from partita.leader.patience import Patience
from partita.leader.planning import Planning
from partita.leader.worker_group import WorkerGroup
from partita.recent import Recent
from partita.worker.messages import MessageFlow

_LOG = logging.getLogger(__name__)

#: Longest wait for one message between a stranger and another worker, which meet first, and for
#: those of one that is back: after a freeze connections of data took more than 10 s on a machine
#: with six busy processes per core, and requests waited for them.
_WAY_S = 15.0
#: Between two tries of the latter.
_LOOK_S = 0.2
#: Until one that could not be used is tried again: files may have been copied meanwhile.
_AGAIN_S = 3.0
#: Devices and reasons that were told: reasons may have numbers in them.
_MOST_TOLD = 256


class Arrivals:
    """Takes devices in, on threads of its own: those that are known, and strangers beside them.

    Of each kind one at a time: strangers of one machine would disturb each other's measurement.
    """

    def __init__(self, monitor: FailureMonitor, group: WorkerGroup, planning: Planning) -> None:
        self._monitor, self._group, self._planning = monitor, group, planning
        self._since_s: dict[str, float] = {}
        self._jobs: dict[bool, Future[Joined | None]] = {}
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(2, "leader-arrive")
        self._later: deque[str] = deque()
        self._told = Recent[tuple[str, str], None](_MOST_TOLD)
        self._known = group.endpoint.peers() & set(planning.roster)
        monitor.arrived.extend(sorted(group.endpoint.peers() - self._known))

    def end(self) -> None:
        """Let the threads end; who is being measured is not taken in."""
        self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self, patience: Patience) -> bool:
        """End the threads; whether they did in time."""
        self.end()
        return patience.wait(*self._jobs.values())

    def look(self) -> list[Joined]:
        """The devices that were taken in since the last look."""
        now_s = time.monotonic()
        while self._monitor.arrived:
            self._note(self._monitor.arrived.popleft(), now_s)
        while self._later:
            self._since_s.setdefault(self._later.popleft(), now_s + _AGAIN_S)
        done = [kind for kind, job in self._jobs.items() if job.done()]
        results = [self._jobs.pop(kind).result() for kind in done]
        for device, since_s in list(self._since_s.items()):
            is_known = device in self._planning.roster
            is_due = now_s - since_s >= self._monitor.back_off.wait_s(device)
            if is_due and is_known not in self._jobs:
                del self._since_s[device]
                self._jobs[is_known] = self._pool.submit(self._try, device)
        return [joined for joined in results if joined is not None]

    def _note(self, device: str, now_s: float) -> None:
        """Begin to count for how long a device is there; of those in use it says nothing new."""
        is_in_use = device in self._known and device not in self._monitor.lost.devices
        if is_in_use or not self._planning.may_join(device):
            return
        self._since_s[device] = now_s
        if (wait_s := self._monitor.back_off.wait_s(device)) > 0:
            words = "device '%s' comes and goes: it is used once it has been there for %g s"
            _LOG.info(words, device, wait_s)

    def _try(self, device: str) -> Joined | None:
        try:
            if device not in self._group.endpoint.peers():
                return None  # gone again; it is told when it is back
            return self._take_in(device)
        except PartitaError as error:
            self._put_off(device, error.message)
        except Exception as error:  # the run goes on without it
            _LOG.debug("device '%s' is not used", device, exc_info=True)
            self._put_off(device, first_line(error))
        return None

    def _put_off(self, device: str, why: str) -> None:
        """Try one that is there again later; what is wrong with it is told once."""
        if device in self._group.endpoint.peers():
            self._later.append(device)
            if (device, why) not in self._told:
                self._told[device, why] = None
                _LOG.warning("device '%s' is not used: %s", device, why)

    def _take_in(self, device: str) -> Joined | None:
        """Have a device greeted, and a stranger priced; None where it is no worker."""
        if device not in self._planning.roster:
            if not self._group.endpoint.info(device):
                return None
            info = self._group.greet((device,))[device]
            self._try_ways(device)  # first: to measure it takes long
            bench = partial(WorkerBench, self._group, info)
            self._planning.admit(info, bench, self._check)
        else:
            self._await_ways(device)
        self._monitor.take_back(device)
        self._known.add(device)
        self._planning.set_lost(self._monitor.lost)
        return Joined(device, self._planning.assumed)

    def _await_ways(self, device: str) -> None:
        """Wait until one that is back and the others reach each other again.

        Where that takes too long it is used all the same: a link that is broken is told by those
        that send over it, and is planned around.
        """
        deadline_s = time.monotonic() + _WAY_S
        while time.monotonic() < deadline_s and not self._ended.is_set():
            try:
                self._try_ways(device)
            except RunError as error:
                _LOG.debug("device '%s' is not reached yet: %s", device, error.message)
                self._ended.wait(_LOOK_S)
            else:
                return

    def _try_ways(self, device: str) -> None:
        """See that a device and those it is to work with reach each other.

        Who looks at an older join file takes nothing of a stranger that was let in since.
        """
        endpoint, away = self._group.endpoint, {device, *self._monitor.lost.devices}
        for other in sorted((endpoint.peers() & set(self._planning.roster)) - away):
            for source, target in ((device, other), (other, device)):
                time_flows(endpoint, source, MessageFlow(target, 0, 1), timeout_s=_WAY_S)

    def _check(self, *_: object) -> None:
        """Called on and on while a stranger is measured."""
        if self._ended.is_set():
            raise RunError("The session has ended.")
