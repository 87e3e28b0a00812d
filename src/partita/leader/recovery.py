"""Going on without what is lost: planning and deploying until nothing more is lost under way."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from partita.errors import LinkError, PartitaError, RunError
from partita.execution import Change
from partita.leader.back_off import BackOff
from partita.leader.change_log import ChangeLog
from partita.leader.deployment import Deployable
from partita.leader.explain import shorten_cause
from partita.leader.losses import REVOKED, Lost
from partita.leader.worker_group import WorkerGroup

_LOG = logging.getLogger(__name__)

#: Returns what the rest can run, from all that is lost since the session began.
ReplanWithout = Callable[[Lost], Deployable]
T = TypeVar("T")

#: A fraction of the time between two heartbeats, by which a loss is noticed.
_POLL_S = 0.005
#: How often what takes over is deployed again for a device that beats and answered too late.
_MOST_LATE = 2
#: How long requests wait for a lost requester: a machine starts, with its worker, in less.
REQUESTER_WAIT_S = 60.0


@dataclass
class Halt:
    """Requests wait from a loss until what is left has taken over.

    Attributes:
        found_s: When the loss was found, on the leader's clock.
        error: What to say where nothing can take over.
        again: Requests that are fed again then.
        until_s: Until when the requester is waited for; None where it was there all the time.
    """

    found_s: float
    error: RunError
    again: int
    until_s: float | None = None


class Recovery:
    """What a session goes on without, and how.

    Args:
        group: Those that are lost are taken out of it.
        replan: None where a loss is the end.
        requester: Inputs come in there: without it nothing goes on until it is there again.
        silence_s: A worker without a heartbeat for so long is lost.
        wait_s: How long it is waited for; 0 where nobody takes in who comes back.

    Attributes:
        lost: All that the session goes on without.
        log: A change per recovery; times on the leader's clock.
        back_off: For how long devices that come and go are left alone.
    """

    def __init__(
        self,
        group: WorkerGroup,
        replan: ReplanWithout | None,
        requester: str,
        silence_s: float,
        wait_s: float = 0.0,
    ) -> None:
        self.lost = Lost()
        self.log = ChangeLog()
        self.back_off = BackOff()
        self._group, self._replan = group, replan
        self._requester, self._silence_s, self._wait_s = requester, silence_s, wait_s
        self._losses: deque[tuple[str, str]] = deque()

    @property
    def changes(self) -> list[Change]:
        """The last recoveries, in order."""
        return list(self.log.last)

    @property
    def is_wanted(self) -> bool:
        """Whether a plan for the rest is made at all."""
        return self._replan is not None

    @property
    def lacks_requester(self) -> bool:
        """Whether nothing can go on now."""
        return self._requester in self.lost.devices

    def on_lost(self, device: str, why: str) -> None:
        """Queue the loss of a device."""
        self._losses.append((device, why))

    def take_losses(self) -> list[tuple[str, str]]:
        """The devices of the group that were lost since the last time; they are asked no more."""
        losses = []
        while self._losses:
            device, why = self._losses.popleft()
            if device in self._group.names:
                self.do_without(Lost((device,)))
                if device != self._requester:  # which is waited for as it is
                    self.back_off.lose(device, time.monotonic())
                elif why == REVOKED:
                    self._wait_s = 0.0
                losses.append((device, why))
        return losses

    def do_without(self, lost: Lost) -> None:
        """Count something among what is lost."""
        self.lost |= lost
        for device in lost.devices:
            self._group.remove(device)

    def add(self, names: Iterable[str]) -> None:
        """Take devices into the group, none of which is lost.

        Raises:
            LinkError: One is: a plan with it was made before that was known.
        """
        for device in names:
            if device in self.lost.devices:
                raise LinkError(f"Device {device!r} was lost meanwhile.", device=device)
        self._group.add(names)

    def count_lost(self, device: str, *, is_lost: bool) -> None:
        """Count a device among what is lost, though it is there; or no more, nor its links."""
        self.lost = self.lost | Lost((device,)) if is_lost else self.lost.without(device)

    def is_late(self, fault: RunError) -> bool:
        """Whether a deployment failed because of a device that is alive: it has beaten just now."""
        device, since_s = fault.device, time.monotonic() - self._silence_s
        if type(fault) is not LinkError or self._group.has_left(device):
            return False
        return device in self._group.names and self._group.beats.have_beaten((device,), since_s)

    def is_loss(self, fault: RunError) -> bool:
        """Whether a deployment failed because of a loss, which is news for some time."""
        if isinstance(fault, LinkError) and fault.device in self._group.names:
            self.on_lost(fault.device, fault.message)
        deadline_s = time.monotonic() + self._silence_s
        while not self._losses and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        return bool(self._losses)

    def end(self, halt: Halt, deploy: Callable[[Deployable], T]) -> T | None:
        """What :meth:`go_on` gives; None while the requester is waited for.

        Raises:
            RunError: As there, or the requester was waited for in vain.
        """
        if not self.lacks_requester:
            try:
                return self.go_on(halt.found_s, halt.error, deploy, halt.again)
            except RunError as fault:
                if not self.lacks_requester:
                    raise
                halt.error = fault
        now_s = time.monotonic()
        if halt.until_s is None:
            halt.until_s = now_s + self._wait_s
            if self._wait_s:
                words = "device '%s', where inputs come in, is lost: requests wait, %g s at most"
                _LOG.warning(words, self._requester, self._wait_s)
        if now_s < halt.until_s:
            return None
        raise halt.error

    def go_on(
        self, found_s: float, error: RunError, deploy: Callable[[Deployable], T], again: int = 0
    ) -> T:
        """What ``deploy`` makes of a plan without all that is lost, also of what is lost meanwhile.

        Args:
            found_s: When the loss was found, on the leader's clock.
            error: What to say where nothing can take over.
            again: Requests that are fed again then.

        Raises:
            RunError: The requester is lost, there is no plan, or a worker refuses it.
        """
        try:
            result, search_s = self._deploy_rest(deploy)
        except PartitaError as fault:
            _LOG.debug("The rest could not take over.", exc_info=True)
            message = f"{error.message} The rest could not take over: {fault.message}"
            raise RunError(
                message, device=error.device, step=error.step, request=error.request
            ) from fault
        why = shorten_cause(error)
        now_s, detail = (
            time.monotonic(),
            f"without {self.lost}" if self.lost else "with all devices",
        )
        change = Change(found_s, why, "recovered", detail, search_s, now_s, again=again)
        self.log.add(change)
        return result

    def _deploy_rest(self, deploy: Callable[[Deployable], T]) -> tuple[T, float]:
        """What is deployed in the end, and the seconds that planning took."""
        assert self._replan is not None
        search_s, late = 0.0, 0
        while True:
            self.take_losses()
            if self.lacks_requester:
                raise RunError(
                    f"The requester {self._requester!r} was lost, too.", device=self._requester
                )
            began_s = time.monotonic()
            compiled = self._replan(self.lost)
            search_s += time.monotonic() - began_s
            try:
                return deploy(compiled), search_s
            except RunError as fault:
                if late < _MOST_LATE and self.is_late(fault):
                    late += 1
                elif not self.is_loss(fault):
                    raise
