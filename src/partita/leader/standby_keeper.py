"""What stands by for each loss: planned and compiled beforehand, its content on the workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from partita.errors import PartitaError, RunError
from partita.leader.deployment import Deployment, DeployOptions
from partita.leader.failure_monitor import FailureMonitor
from partita.leader.losses import Lost
from partita.leader.patience import Patience
from partita.leader.planning import SparePlanning
from partita.leader.worker_group import WorkerGroup
from partita.memory import release

_LOG = logging.getLogger(__name__)

#: Interval at which the running epoch is looked at.
_LOOK_S = 0.1
#: A trial of a new plan is not disturbed for so long: without requests it would never end.
_PATIENCE_S = 10.0
#: Workers of what stands by were there a moment ago, or it does not stand by.
_WAIT_S = 1.0
#: Of emulated devices, which are timed while requests wait.
_REPEATS, _ROUNDS = 3, 1


class StandbyKeeper:
    """One thread that follows the epoch that runs.

    A plan that took over in a hurry is brought again as one that runs fast. Then for the loss of
    each device but the requester what takes over is planned, in the quickest way first, and its
    content pushed, between the messages of others: a loss then costs no more than loading it.

    Args:
        options: Of the first deployment.
        is_settled: Whether the running plan is no trial.

    Attributes:
        covered: Devices for whose loss something stands by; empty until all that can be is sought.
    """

    def __init__(
        self,
        monitor: FailureMonitor,
        group: WorkerGroup,
        planning: SparePlanning,
        options: DeployOptions,
        is_settled: Callable[[], bool],
    ) -> None:
        self._monitor = monitor
        self._group = group
        self._planning = planning
        self._is_settled = is_settled
        self._thorough = replace(options, repeats=_REPEATS, rounds=_ROUNDS)
        monitor.soon = replace(self._thorough, quick=True)
        self._running, self._lost = monitor.deployment, monitor.lost
        self.covered: tuple[str, ...] = ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader/standby", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end; a search that is under way ends unused."""
        self._ended.set()

    def close(self, patience: Patience) -> bool:
        """End the thread; whether it did in time."""
        self.end()
        return patience.join(self._thread)

    def _run(self) -> None:
        is_served, since_s = False, time.monotonic()
        while not self._ended.wait(_LOOK_S):
            if self._is_over:
                self._running, self._lost = self._monitor.deployment, self._monitor.lost
                is_served, since_s, self.covered = False, time.monotonic(), ()
            is_late = time.monotonic() - since_s > _PATIENCE_S
            if is_served or self._waits or not (is_late or self._is_settled()):
                continue
            try:
                self._serve()
            except Exception:  # without what stands by a loss takes longer, and that is all
                _LOG.debug("What stands by could not be made.", exc_info=True)
            is_served = True
            release()  # the C library keeps what searches and compiled plans took

    def _serve(self) -> None:
        """Bring a plan of haste again, and hold something by for the loss of each device."""
        self._monitor.standbys.drop()
        if self._running.options.quick:
            self._bring_again()
        running, held = self._running, dict[str, Deployment]()
        others = [name for name in running.devices if name != running.program.requester]
        for search in (False, True):
            for device in others:
                if self._is_over:
                    return
                try:
                    self._hold(running, device, held, search=search)
                except PartitaError as error:
                    _LOG.debug("Nothing stands by for %s: %s", device, error.message)
        self.covered = tuple(held)

    @property
    def _is_over(self) -> bool:
        """Whether another epoch runs by now, or none any more, or more or less is lost."""
        is_same = self._monitor.deployment is self._running and self._monitor.lost == self._lost
        return self._ended.is_set() or not is_same

    @property
    def _waits(self) -> bool:
        """Whether nothing runs until the requester is there again."""
        return self._running.program.requester in self._lost.devices

    def _bring_again(self) -> None:
        """Switch to the same program, loaded to run fast; it stays where memory has no room."""
        old = self._running
        new = Deployment(old.compiled, self._group, self._thorough)
        try:
            new.prepare(self._monitor.infos)
        except RunError as error:
            _LOG.debug("The plan stays as it was loaded in haste: %s", error.message)
            return
        if self._monitor.switch(old, new):
            self._running = new
        else:
            new.retire()

    def _hold(
        self, running: Deployment, device: str, held: dict[str, Deployment], *, search: bool
    ) -> None:
        """Have what takes over from the running plan without a device stand by.

        Raises:
            PartitaError: There is no such plan, or a worker has no room for it.
        """
        lost = self._lost | Lost((device,))
        plan_hash = running.program.plan_hash
        compiled = self._planning.stand_by(plan_hash, lost, search=search)
        stale = held.get(device)
        if stale is not None and stale.program == compiled.program:
            return
        self._monitor.add_workers(compiled.program, _WAIT_S)
        spare = Deployment(compiled, self._group, self._monitor.soon)
        spare.stand_by(self._monitor.infos, self._breathe)
        if not self._monitor.hold(spare, running, stale):
            spare.retire()
            return
        held[device] = spare
        if stale is not None:
            stale.retire()

    def _breathe(self, seconds: float) -> None:
        """Leave the links to others for as long as a chunk took.

        Raises:
            RunError: What is pushed is for nothing by now.
        """
        if self._ended.wait(seconds) or self._is_over:
            raise RunError("Another plan runs by now.")
