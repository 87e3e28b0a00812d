"""What a worker's plans may take of its memory: weights before loading, all of it after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partita.engine.session import shrink_arena
from partita.errors import RunError
from partita.execution import weight_bytes
from partita.memory import private_bytes, release
from partita.program import Program
from partita.units import format_bytes

#: What a loaded plan may hold above the limit: predictions are meant to be off by no more.
_SLACK, _SLACK_BYTES = 0.1, 5_000_000


@dataclass
class MemoryLimit:
    """A worker's memory.

    Attributes:
        device: Named in errors.
        limit_bytes: Most bytes of weights, and of what the process holds privately beyond
            ``idle_bytes`` once a plan is loaded; 0 for no limit.
        idle_bytes: What the process held before it took anything; 0 where that is unknown, or where
            the process is more than a worker: then nothing is held against the limit.
        is_used: Whether a leader has had the worker do anything.
    """

    device: str = ""
    limit_bytes: int = 0
    idle_bytes: int = 0
    is_used: bool = False

    def begin(self) -> None:
        """Count what the process holds as an idle worker's, before it is used for the first time.

        When it started it was alone: beside six others and a leader, connections hold 8 MB more.
        """
        if self.idle_bytes and not self.is_used:
            self.is_used = True
            release()
            self.idle_bytes = private_bytes()

    @property
    def resident_bytes(self) -> int:
        """What the process holds privately beyond an idle worker; 0 where that is unknown."""
        return max(0, private_bytes() - self.idle_bytes) if self.idle_bytes else 0

    def check_weights(self, program: Program, running: Iterable[Program]) -> None:
        """Refuse a program whose weights are too many beside those that run already.

        Raises:
            RunError: Names both, and the limit.
        """
        needed = weight_bytes(program, self.device)
        held = sum(weight_bytes(other, self.device) for other in running)
        if self.limit_bytes and needed + held > self.limit_bytes:
            also = f" beside {format_bytes(held)} of another plan" if held else ""
            raise RunError(
                f"Worker {self.device!r} refuses the plan: weights need {format_bytes(needed)}"
                f"{also}, its limit is {format_bytes(self.limit_bytes)}. Give it less, or raise"
                " --memory.",
                device=self.device,
            )

    def settle(self) -> None:
        """Give back what loading took for a while, and refuse what is held then if it is too much.

        Raises:
            RunError: Names what is held, and the limit.
        """
        give_back()
        self._refuse("the loaded plan holds")

    def check(self) -> None:
        """Give back what is free while plans run, and refuse what is held then if it is too much.

        Raises:
            RunError: Names what is held, and the limit.
        """
        if self._is_passed:
            release()
            self._refuse("what runs here holds")

    @property
    def _is_passed(self) -> bool:
        limit = self.limit_bytes
        return bool(limit) and self.resident_bytes > limit + max(_SLACK_BYTES, _SLACK * limit)

    def _refuse(self, what: str) -> None:
        if self._is_passed:
            raise RunError(
                f"{what} {format_bytes(self.resident_bytes)} beyond an idle worker, the limit is"
                f" {format_bytes(self.limit_bytes)}. Give it less, or raise its memory.",
                device=self.device,
            )


def give_back() -> None:
    """Give what loads, measurements and plans took for a while back to the system.

    Each load and measurement has a thread, and the C library keeps what threads have freed: 191 MB
    for 51 MB of ResNet-50's weights, 58 MB with this; 0.8 GB after a profile of MobileNetV2 (14 MB
    of weights), 0.15 GB. The engine's arena keeps what the largest fragment so far took: a plan of
    28 MB held 37 MB after a profile.
    """
    shrink_arena()
    release()
