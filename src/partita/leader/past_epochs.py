"""Epochs that are over: their logs are fetched, and the workers take them down."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from partita.leader.deployment import Deployment
from partita.leader.patience import Patience
from partita.leader.run_report import EpochLog
from partita.leader.worker_group import WorkerGroup
from partita.recent import Recent

#: Whose totals are kept for reports, and spans of all of them together: about 100 MB. Not tuned.
_KEPT, _MOST_SPANS = 64, 500_000
#: Epochs of which it is known that they are over; who waits for that waits for one of the last.
_KNOWN = 1024


class PastEpochs:
    """Ends epochs on a thread of its own: the log of minutes takes a while, and losses do not wait.

    Args:
        trace: Whether logs have spans.
    """

    def __init__(self, group: WorkerGroup, trace: bool) -> None:
        self._group, self._trace = group, trace
        self._logs: deque[EpochLog] = deque(maxlen=_KEPT)
        self._numbers = Recent[int, None](_KNOWN)
        self._last: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "leader-retire")

    def __contains__(self, deployment: Deployment) -> bool:
        return deployment.epoch in self._numbers

    def add(self, deployment: Deployment) -> None:
        """End an epoch soon, once its log is here."""
        self._last = self._pool.submit(self._end, deployment)
        self._numbers[deployment.epoch] = None  # last: who finds it waits for what is ending

    def _end(self, deployment: Deployment) -> None:
        self._logs.append(self.fetch(deployment))
        self._drop_spans()
        deployment.retire()

    def _drop_spans(self) -> None:
        """Keep the totals alone of the oldest epochs where there are too many spans."""
        left = _MOST_SPANS
        for place in reversed(range(len(self._logs))):
            log = self._logs[place]
            left -= sum(map(len, (log.spans or {}).values()))
            if left < 0 and place < len(self._logs) - 1:
                self._logs[place] = replace(log, spans=None)

    def fetch(self, deployment: Deployment) -> EpochLog:
        """Spans and totals of an epoch that is not over."""
        return EpochLog.fetch(self._group, deployment, self._trace)

    def wait(self) -> None:
        """Wait until all are taken down, which is done in order."""
        if self._last is not None:
            self._last.result()

    def logs(self) -> list[EpochLog]:
        """Spans and totals of the last ones, all of which are taken down by then."""
        self.wait()
        return list(self._logs)

    def close(self, patience: Patience) -> bool:
        """Whether all are taken down in time; the thread ends once they are."""
        self._pool.shutdown(wait=False)
        return patience.wait(self._last)
