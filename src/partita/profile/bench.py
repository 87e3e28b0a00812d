"""Where a model's fragments are timed: on this machine, or on whatever answers the same calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from partita.engine import OrtEngine
from partita.engine.base import Blob
from partita.engine.timer import FragmentTimer
from partita.engine.timing import MachineTimes, TimingOrder, Timings
from partita.errors import ClusterError


class Bench(Protocol):
    """A machine that times fragments.

    Attributes:
        facts: Names, and what it takes for what is no fragment.
        threads: Threads within one operator.
        provider: Execution provider.
    """

    facts: MachineTimes
    threads: int
    provider: str

    def time(
        self, order: TimingOrder, graphs: Mapping[str, bytes], blobs: Mapping[str, Blob]
    ) -> Timings:
        """What fragments take; see :meth:`partita.engine.timer.FragmentTimer.time`."""


class ThisMachine:
    """The machine that this process runs on; see :class:`Bench`.

    Args:
        threads: Threads within one operator.
        provider: ONNX Runtime's execution provider.

    Raises:
        ClusterError: The provider is not available.
    """

    def __init__(self, threads: int, provider: str) -> None:
        engine = OrtEngine(threads, (provider,))
        if engine.fallback:
            raise ClusterError(f"Profile of {provider!r}: {engine.fallback}")
        self.threads = threads
        self.provider = provider
        timer = FragmentTimer(engine)
        self.facts = timer.time_machine()
        self.time = timer.time
