"""Timing for profiles: fragments by the engine's own profiler, from outside, and in turn.

It needs nothing but the engine, so that a worker can be profiled where no model can be read.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from partita.engine.base import Blob, draw_codes, draw_feature, make_inputs
from partita.engine.ort import OrtEngine, check_graph
from partita.engine.packed import collect_blobs
from partita.engine.reference import Reference
from partita.engine.session import open_session
from partita.engine.timing import (
    FragmentTimes,
    MachineTimes,
    NodeTime,
    TimedFragment,
    TimingOrder,
    Timings,
    WireTimes,
)
from partita.errors import RunError, first_line
from partita.host import machine_name
from partita.regions import (
    COMPRESSED,
    decode_array,
    encode_array,
    list_formats,
    read_format,
    with_share,
)

#: Runs of a round even where the budget affords fewer. Not tuned: more take longer.
_MIN_PER_ROUND = 2
#: First runs of a session that are not counted: memory is taken, caches fill. Not tuned.
WARM_UPS = 2
#: Times that the reference is timed before all else; the median counts. Not tuned.
_REFERENCE_ROUNDS = 5
#: Least passes over fragments in turn. Not tuned: more take longer and are less disturbed.
_LEAST_PASSES = 5
#: Two square tensors of 16 and 256 KiB: a line through them has a fixed part and one per byte.
#: Sizes not tuned.
_WIRE_SIDES = (64, 256)
#: Parts that packing without loss leaves of bytes that it is timed with: few bits of noise take a
#: tenth of what many do.
_PACKED_SHARES = (0.05, 0.3, 0.5, 0.7, 0.9)
#: More than most caches hold (32 MiB each): what is added came from elsewhere. Not tuned.
_COPY_ITEMS = 2**23
#: The least of so many runs is taken. Not tuned: more are less disturbed and take longer.
_REPEATS = 3
_SUFFIX = "_kernel_time"


class FragmentTimer:
    """Times fragments on this machine.

    Args:
        engine: Threads and providers; its memory limit holds.
    """

    def __init__(self, engine: OrtEngine) -> None:
        self._engine = engine
        self._reference = Reference()

    def time(
        self, order: TimingOrder, graphs: Mapping[str, bytes], blobs: Mapping[str, Blob]
    ) -> Timings:
        """What each fragment of ``order`` takes.

        Args:
            order: Fragments and how often.
            graphs: Their graphs by hash.
            blobs: Their weights by hash.

        Raises:
            RunError: The engine refuses a fragment.
        """
        with tempfile.TemporaryDirectory(prefix="partita-profile-") as folder:
            probes = [
                self._open(fragment, graphs[fragment.graph], blobs, Path(folder) / str(place))
                if not order.in_turn
                else self._open(fragment, graphs[fragment.graph], blobs, None)
                for place, fragment in enumerate(order.fragments)
            ]
            if order.in_turn:
                return self._time_in_turn(order, probes)
            for probe in probes:
                probe.warm_up(order)
            paces = [self._reference.time_s()]
            for _ in range(order.rounds):
                for probe in probes:
                    probe.run_round()
                paces.append(self._reference.time_s())
            return Timings(tuple(probe.finish() for probe in probes), tuple(paces))

    def time_machine(self) -> MachineTimes:
        """What this machine takes for what is no fragment."""
        return MachineTimes(
            machine=machine_name(),
            engine=f"onnxruntime {ort.__version__}",
            reference_s=statistics.median(
                self._reference.time_s() for _ in range(_REFERENCE_ROUNDS)
            ),
            copy_s_per_byte=_measure_copy(),
            wires=_time_wires(),
        )

    def _open(
        self, fragment: TimedFragment, graph: bytes, blobs: Mapping[str, Blob], prefix: Path | None
    ) -> _Probe:
        packed = {name: blobs[name] for name in sorted(fragment.blobs)}
        facts = check_graph(graph, packed, self._engine.options.memory_limit_bytes)
        config = self._engine.config_of(facts)
        try:
            start_s = time.perf_counter()
            own = collect_blobs(facts.locations, packed)
            first = open_session(graph, replace(config, profile_prefix=prefix), own)
            load_s = time.perf_counter() - start_s
            is_both = prefix is not None and fragment.timed
            plain = open_session(graph, config, own) if is_both else None
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise RunError(f"Fragment cannot be loaded: {first_line(error)}.") from None
        names = [spec.name for spec in fragment.inputs]
        feeds = dict(zip(names, make_inputs(fragment.inputs), strict=True))
        traced, plain = (first, plain) if prefix is not None else (None, first)
        return _Probe(load_s, traced, plain, feeds, self._engine.timer)

    def _time_in_turn(self, order: TimingOrder, probes: Sequence[_Probe]) -> Timings:
        for _ in range(WARM_UPS):
            for probe in probes:
                probe.run_plain()
        walls: list[list[float]] = [[] for _ in probes]
        paces = [self._reference.time_s()]
        began_s, passes = time.perf_counter(), 0
        while passes < _LEAST_PASSES or (
            passes < order.repeats and time.perf_counter() - began_s < order.budget_s
        ):
            for known, probe in zip(walls, probes, strict=True):
                known.append(probe.run_plain())
            passes += 1
        # Only now: between passes it would leave nothing of theirs in the caches.
        paces.append(self._reference.time_s())
        times = (
            FragmentTimes(probe.load_s, tuple(known))
            for probe, known in zip(probes, walls, strict=True)
        )
        return Timings(tuple(times), tuple(paces))


@dataclass
class _Probe:
    """A fragment with a session that the engine profiles, a plain one, or both."""

    load_s: float
    traced: Any | None
    plain: Any | None
    feeds: dict[str, Any]
    clock: Callable[[], float]
    per_round: int = 1
    walls: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    def warm_up(self, order: TimingOrder) -> None:
        """Run a few times, and choose how often to run in a round."""
        took_s = 0.0
        for _ in range(WARM_UPS):
            start_s = time.perf_counter()
            for session in (self.traced, self.plain):
                if session is not None:
                    session.run(None, self.feeds)
            took_s = time.perf_counter() - start_s
        affordable = int(order.budget_s / order.rounds / max(took_s, 1e-6))
        most = max(1, order.repeats // order.rounds)
        self.per_round = max(min(_MIN_PER_ROUND, most), min(most, affordable))

    def run_round(self) -> None:
        """Run both sessions as often as chosen."""
        for _ in range(self.per_round):
            self.used.append(self._run_traced())
            if self.plain is not None:
                self.walls.append(self.run_plain())

    def run_plain(self) -> float:
        """The seconds of one run of the plain session."""
        assert self.plain is not None
        start_s = self.clock()
        self.plain.run(None, self.feeds)
        return self.clock() - start_s

    def _run_traced(self) -> float:
        """The processor seconds of one run of the profiled session."""
        assert self.traced is not None
        start_s = self.clock()
        self.traced.run(None, self.feeds)
        return self.clock() - start_s

    def finish(self) -> FragmentTimes:
        """All runs, warm-ups excluded; lets go of the sessions."""
        assert self.traced is not None
        path = Path(self.traced.end_profiling())
        runs = read_nodes(path.read_bytes())[WARM_UPS:]
        path.unlink()
        self.traced = self.plain = None
        return FragmentTimes(self.load_s, tuple(self.walls), tuple(self.used), runs)


def read_nodes(content: bytes) -> tuple[tuple[NodeTime, ...], ...]:
    """The nodes of each run in the JSON that ONNX Runtime's ``end_profiling`` wrote."""
    runs: list[tuple[NodeTime, ...]] = []
    nodes: list[NodeTime] = []
    for event in msgspec.json.decode(content):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX) and "dur" in event:
            nodes.append(_read_node(event))
        elif event["name"] == "model_run" and "dur" in event:
            runs.append(tuple(nodes))
            nodes = []
    return tuple(runs)


def _read_node(event: Mapping[str, Any]) -> NodeTime:
    args = event["args"]
    shapes = args.get("output_type_shape") or [{}]
    return NodeTime(
        event["name"].removesuffix(_SUFFIX),
        args.get("op_name", ""),
        event["dur"] * 1e-6,
        int(args.get("output_size") or 0),
        tuple(next(iter(shapes[0].values()), ())),
    )


def _time_wires() -> dict[str, WireTimes]:
    """What all formats take; packing without loss by the part that it leaves, as ``zlib@0.51``."""
    found = {}
    for wire in list_formats():
        if read_format(wire).method != "zlib":
            draw = _draw_feature if wire in COMPRESSED else _draw_piece
            found[wire] = _time_wire(wire, list(map(draw, _WIRE_SIDES)))
            continue
        for share in _PACKED_SHARES:
            pieces = [draw_codes(4 * side * side, 8, share) for side in _WIRE_SIDES]
            left = len(encode_array(pieces[-1], wire)) / pieces[-1].nbytes
            found[with_share(wire, left)] = _time_wire(wire, pieces)
    return found


def _time_wire(wire: str, pieces: Sequence[npt.NDArray[Any]]) -> WireTimes:
    encode, decode = [], []
    for array in pieces:
        payload = bytes(encode_array(array, wire))
        encode.append((array.nbytes, _time(_encode, array, wire)))
        decode.append((array.nbytes, _time(_decode, payload, array, wire)))
    return WireTimes(tuple(encode), tuple(decode))


def _draw_feature(side: int) -> npt.NDArray[np.float32]:
    return draw_feature((3, side, side))


def _draw_piece(side: int) -> npt.NDArray[np.float32]:
    whole = np.random.default_rng(side).random((side + 2, side), np.float32)
    return whole[1:-1]


def _encode(array: npt.NDArray[np.generic], wire: str) -> bytes:
    return bytes(encode_array(array, wire))


def _decode(payload: bytes, like: npt.NDArray[np.generic], wire: str) -> npt.NDArray[np.generic]:
    return decode_array(payload, like.shape, like.dtype.name, wire).copy()


def _measure_copy() -> float:
    """Seconds per byte read or written by an addition of two arrays."""
    a = np.ones(_COPY_ITEMS, np.float32)
    b = a.copy()
    return _time(np.add, a, b, b) / (3 * a.nbytes)


def _time(work: Callable[..., object], *given: object) -> float:
    work(*given)
    times = []
    for _ in range(_REPEATS):
        start_s = time.perf_counter()
        work(*given)
        times.append(time.perf_counter() - start_s)
    return min(times)
