"""Engines that misbehave on purpose."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from partita.engine import Blob, OrtEngine, Runner
from partita.program import TensorSpec
from partita.regions import Array


class GateEngine:
    """Computes like ONNX Runtime, but each run after the warm-up waits for the gate.

    Attributes:
        entered: Set once a run waits.
        gate: Lets all runs go on.
        error: What runs raise after the gate, or None.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.error = error

    def load(self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True) -> GateRunner:
        """Return the fragment behind the gate."""
        return GateRunner(OrtEngine(1).load(graph, blobs, prepack=prepack), self)


class GateRunner:
    """One fragment behind the gate."""

    def __init__(self, inner: Runner, engine: GateEngine) -> None:
        self.inputs: tuple[TensorSpec, ...] = inner.inputs
        self.outputs: tuple[TensorSpec, ...] = inner.outputs
        self.providers = inner.providers
        self._inner = inner
        self._engine = engine
        self._is_warm = False

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the outputs when the gate is open."""
        if self._is_warm:
            self._engine.entered.set()
            self._engine.gate.wait(20)
            if self._engine.error is not None:
                raise self._engine.error
        self._is_warm = True
        return self._inner.run(arrays)
