"""Profiling on a worker: one measurement at a time, beside no plan."""

from __future__ import annotations

import threading

from partita.engine import Engine, OrtEngine, SlowedEngine
from partita.engine.timer import FragmentTimer
from partita.engine.timing import TimingOrder
from partita.errors import RunError, first_line
from partita.worker.memory_limit import give_back
from partita.worker.messages import Measure, Measured
from partita.worker.store import Store


class Measurer:
    """Times fragments of the store on this worker's engine.

    Args:
        name: The worker, for errors and threads.
    """

    def __init__(self, name: str, engine: Engine, store: Store) -> None:
        self._name = name
        self._engine = engine
        self._store = store
        self._lock = threading.Lock()
        self._results: dict[int, Measured] = {}

    def begin(self, order: Measure) -> None:
        """Begin to measure; :meth:`result` tells how far it is.

        Raises:
            RunError: Another measurement is under way, or the engine cannot be timed.
        """
        engine = self._engine.inner if isinstance(self._engine, SlowedEngine) else self._engine
        if not isinstance(engine, OrtEngine):
            raise RunError(
                f"Worker {self._name!r} cannot be profiled: its engine is no ONNX Runtime.",
                device=self._name,
            )
        with self._lock:
            if any(result.busy for result in self._results.values()):
                raise RunError(
                    f"Worker {self._name!r} is being profiled already; try again later.",
                    device=self._name,
                )
            self._results[order.epoch] = Measured(busy=True)
        threading.Thread(
            target=self._run, args=(engine, order), name=f"{self._name}/measure", daemon=True
        ).start()

    def result(self, epoch: int) -> Measured:
        """What came out, or that it is under way.

        Raises:
            RunError: Nothing was asked for under this epoch.
        """
        result = self._results.get(epoch)
        if result is None:
            raise RunError(f"Nothing is measured for epoch {epoch} on {self._name!r}.")
        return result

    def forget(self, epoch: int) -> None:
        """Drop what came out; what is under way ends by itself."""
        with self._lock:
            if epoch in self._results and not self._results[epoch].busy:
                del self._results[epoch]

    def _run(self, engine: OrtEngine, order: Measure) -> None:
        try:
            result = self._measure(FragmentTimer(engine), order.order)
        except Exception as fault:  # whatever the engine raised: the leader reads it
            result = Measured(busy=False, error=first_line(fault))
        give_back()
        self._results[order.epoch] = result

    def _measure(self, timer: FragmentTimer, order: TimingOrder | None) -> Measured:
        if order is None:
            return Measured(busy=False, facts=timer.time_machine())
        graphs = {part.graph: bytes(self._store.open(part.graph)) for part in order.fragments}
        names = {name for part in order.fragments for name in part.blobs}
        blobs = {name: self._store.open(name) for name in names}
        return Measured(busy=False, timings=timer.time(order, graphs, blobs))
