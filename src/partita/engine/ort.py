"""The filling that computes: ONNX Runtime sessions fed with weights from memory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnxruntime as ort

from partita.engine.base import CPU, Blob, size_of
from partita.engine.onnx_facts import GraphFacts, StoredTensor, read_facts
from partita.engine.packed import UNPACKED, collect_blobs, split_location, unpacked_bytes
from partita.engine.session import SPIN_US, SessionConfig, open_session
from partita.errors import RunError, first_line
from partita.program import TensorSpec
from partita.regions import Array
from partita.units import format_bytes

#: Operator domains that ONNX Runtime ships itself; all others would need foreign code.
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"})
_BLOB_NAME = re.compile(rf"^[0-9a-f]{{64}}(\.({'|'.join(UNPACKED)}))?$")


@dataclass(frozen=True)
class OrtOptions:
    """How sessions are made.

    Attributes:
        prepack: Whether weights are prepacked: 4 times slower to load, double memory, faster in
            batches.
        memory_limit_bytes: Most bytes of weights, inputs and outputs of one fragment, or None.
    """

    prepack: bool = True
    memory_limit_bytes: int | None = None


class OrtEngine:
    """Loads fragments into ONNX Runtime.

    Args:
        providers: Wished execution providers, the preferred first; the CPU is always the last.

    Attributes:
        fallback: One sentence when a wished provider is missing here, else empty.
    """

    def __init__(
        self,
        threads: int = 1,
        providers: Sequence[str] = (CPU,),
        *,
        options: OrtOptions = OrtOptions(),
    ) -> None:
        self.threads = threads
        self.options = options
        available = ort.get_available_providers()
        wished = [p for p in providers if p in available and p != CPU]
        self.providers = (*wished, CPU)
        missing = [p for p in providers if p not in available]
        self.fallback = describe_fallback(missing, self.providers, available) if missing else ""

    def load(self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True) -> OrtRunner:
        """A session for the fragment; see :meth:`partita.engine.Engine.load`."""
        facts = check_graph(graph, blobs, self.options.memory_limit_bytes)
        config = self.config_of(facts)
        values = {}
        if not prepack:
            # Rearranged for this processor's kernels, convolutions of VGG-16 are loaded in 0.16 s,
            # else in 0.04, and run a quarter longer.
            config = replace(config, prepack=False, optimise="extended")
            values = map_values(facts.stored, blobs)
        mapped = {stored.location for stored in facts.stored if stored.spec.name in values}
        try:
            files = collect_blobs(facts.locations - mapped, blobs)
            session = open_session(graph, config, files, values)
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise RunError(f"Fragment cannot be loaded: {first_line(error)}.") from None
        return OrtRunner(session, facts, values)

    @property
    def timer(self) -> Callable[[], float]:
        """The clock that runs are timed by, in seconds.

        Processor time of the calling thread where it does all the work, so that other processes do
        not count: on a machine with five of them per core a run of 38 ms takes 110 ms by the time
        of day. Else the time of day.
        """
        is_alone = self.threads == 1 and self.providers[0] == CPU
        return time.thread_time if is_alone else time.perf_counter

    def config_of(self, facts: GraphFacts) -> SessionConfig:
        """How the session of a fragment with these facts is made."""
        return replace(self.config, integer_kernels=facts.integer)

    @property
    def config(self) -> SessionConfig:
        """How the session of a fragment is made; idle threads stop to spin when a run ends."""
        return SessionConfig(
            threads=self.threads,
            providers=self.providers,
            prepack=self.options.prepack,
            # Fragments of a device run one at a time: with an arena each, planned or not, 53 of
            # ResNet-50 hold 46 MB, with one 3 MB, and 25 of MobileNet-v2 are a tenth faster.
            shared_arena=True,
            memory_plan=False,
            keep_memory=False,
            spin_us=SPIN_US,
            entries={"force_spinning_stop": "1"},
        )


class OrtRunner:
    """One session; see :class:`partita.engine.Runner`."""

    def __init__(self, session: Any, facts: GraphFacts, values: Mapping[str, Array]) -> None:
        self._values = values  # the session reads them where they lie
        self.inputs: tuple[TensorSpec, ...] = tuple(facts.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(facts.outputs)
        self.providers: tuple[str, ...] = tuple(session.get_providers())
        self._session = session
        self._input_names = [spec.name for spec in facts.inputs]
        self._output_names = [spec.name for spec in facts.outputs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs; see :meth:`partita.engine.Runner.run`."""
        if len(arrays) != len(self._input_names):
            raise RunError(
                f"Fragment takes {len(self._input_names)} inputs: {len(arrays)} were given."
            )
        feeds = dict(zip(self._input_names, arrays, strict=True))
        try:
            outputs: list[Array] = self._session.run(self._output_names, feeds)
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise RunError(f"Fragment failed: {first_line(error)}.") from None
        for spec, array in zip(self.outputs, outputs, strict=True):
            if array.shape != spec.shape:
                raise RunError(
                    f"Fragment failed: output '{spec.name}' has shape {_show(array.shape)}, its"
                    f" declared shape is {_show(spec.shape)}. Declare no shape that depends on the"
                    " data."
                )
        return outputs


def map_values(stored: Sequence[StoredTensor], blobs: Mapping[str, Blob]) -> dict[str, Array]:
    """Initializers as arrays over the bytes of blobs, by name; nothing is copied.

    Packed codes are left out, and what is not as long as it should be, which the engine refuses.
    """
    values: dict[str, Array] = {}
    for tensor in stored:
        content_hash, packed = split_location(tensor.location)
        if packed or tensor.offset < 0:
            continue
        part = np.frombuffer(blobs[content_hash], np.uint8)[tensor.offset :]
        size = tensor.spec.size_bytes
        if 0 < size <= part.size and not tensor.offset % np.dtype(tensor.spec.dtype).itemsize:
            values[tensor.spec.name] = (
                part[:size].view(tensor.spec.dtype).reshape(tensor.spec.shape)
            )
    return values


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"


def check_graph(
    graph: bytes, blobs: Mapping[str, Blob], memory_limit_bytes: int | None
) -> GraphFacts:
    """The facts of a fragment that is safe to load.

    Raises:
        RunError: The bytes are no model, a node needs a custom-operator library, weights lie
            outside the store or are missing, or the fragment needs more memory than allowed.
    """
    try:
        facts = read_facts(graph)
    except ValueError as error:
        raise RunError(f"Fragment of {len(graph)} bytes is not an ONNX model: {error}.") from None
    foreign = sorted(facts.domains - DOMAINS)
    if foreign or facts.functions:
        what = f"operators of domain {foreign[0]!r}" if foreign else "local functions"
        raise RunError(f"Fragment refused: it has {what}; only ONNX Runtime's own are allowed.")
    for location in sorted(facts.locations):
        if _BLOB_NAME.match(location) is None:
            raise RunError(
                f"Fragment refused: weights in {location!r}; "
                "allowed are blobs named by 64 hex digits."
            )
        if split_location(location)[0] not in blobs:
            raise RunError(f"Fragment cannot be loaded: weight blob {location} is missing here.")
    needed_bytes = len(graph) + sum(_loaded_bytes(name, blobs) for name in facts.locations)
    needed_bytes += sum(spec.size_bytes for spec in (*facts.inputs, *facts.outputs))
    if memory_limit_bytes is not None and needed_bytes > memory_limit_bytes:
        raise RunError(
            f"Fragment refused: it needs {format_bytes(needed_bytes)}, "
            f"{format_bytes(memory_limit_bytes)} are allowed. Plan smaller stages for this device."
        )
    return facts


def _loaded_bytes(location: str, blobs: Mapping[str, Blob]) -> int:
    """The bytes of the weights at a graph's location."""
    content_hash, dtype = split_location(location)
    try:
        blob = blobs[content_hash]
        return unpacked_bytes(blob, dtype) if dtype else size_of(blob)
    except ValueError as error:
        raise RunError(f"Fragment cannot be loaded: weights at {location}: {error}.") from None


def describe_fallback(missing: Sequence[str], used: Sequence[str], available: Sequence[str]) -> str:
    """The sentence that says which provider computes instead of the missing one.

    >>> describe_fallback(["Fast"], ["CPU"], ["CPU"])
    'Fast is not available here (available: CPU); CPU computes instead.'
    """
    return (
        f"{', '.join(missing)} is not available here (available: {', '.join(available)}); "
        f"{used[0]} computes instead."
    )
