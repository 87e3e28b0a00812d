"""Running one fragment and timing it from inside and outside."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from partita.engine import OrtEngine
from partita.engine.base import CPU
from partita.engine.session import open_session
from partita.errors import ClusterError
from partita.graph.fragment import BlobStore, Fragment
from partita.profile.options import MeasureOptions
from partita.profile.segments import SizedSegment
from partita.profile.trace import Trace, read_trace

#: Runs of a round even where the budget affords fewer. Not tuned: more take longer.
_MIN_PER_ROUND = 2
#: First runs of a session that are not counted: memory is taken, caches fill. Not tuned.
_WARM_UPS = 2
_SEED = 0
_NUMBERS = itertools.count()


@dataclass
class ProfiledFragment:
    """One fragment with a session that the engine profiles and, for some, a plain one.

    Attributes:
        load_s: How long the profiled session took to make.
        clock: Processor time of this thread where it does all the work, so that other processes do
            not count; else the time of day.
        walls: Seconds of each run of the plain session.
        per_round: Runs in each round, chosen from the first runs.
        shares: Per run of the profiled session: processor time over time of day.
    """

    segment: SizedSegment
    weight_bytes: int
    load_s: float
    traced: Any
    plain: Any | None
    feeds: dict[str, Any]
    clock: Callable[[], float]
    per_round: int = 1
    walls: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def warm_up(self, options: MeasureOptions) -> None:
        """Run a few times, and choose how often to run in a round."""
        took_s = 0.0
        for _ in range(_WARM_UPS):
            start_s = time.perf_counter()
            self.traced.run(None, self.feeds)
            if self.plain is not None:
                self.plain.run(None, self.feeds)
            took_s = time.perf_counter() - start_s
        affordable = int(options.budget_s / options.rounds / max(took_s, 1e-6))
        most = max(1, options.repeats // options.rounds)
        self.per_round = max(min(_MIN_PER_ROUND, most), min(most, affordable))

    def run_round(self) -> None:
        """Run both sessions as often as chosen."""
        for _ in range(self.per_round):
            self.shares.append(self._run_traced())
            if self.plain is not None:
                start_s = self.clock()
                self.plain.run(None, self.feeds)
                self.walls.append(self.clock() - start_s)

    def _run_traced(self) -> float:
        """Run the profiled session and return the share of the time that this thread computed."""
        day_s, start_s = time.perf_counter(), self.clock()
        self.traced.run(None, self.feeds)
        used_s = self.clock() - start_s
        return min(1.0, used_s / max(time.perf_counter() - day_s, 1e-9))

    def finish(self) -> Trace:
        """The trace of all runs, warm-ups excluded, and let go of the sessions."""
        path = Path(self.traced.end_profiling())
        trace = read_trace(path.read_bytes(), self.segment)
        path.unlink()
        self.traced = self.plain = None
        return Trace(trace.runs[_WARM_UPS:], trace.blocked)


def open_fragment(
    segment: SizedSegment,
    fragment: Fragment,
    store: BlobStore,
    specs: tuple[MeasureOptions, Path, bool],
    dtypes: Sequence[str],
) -> ProfiledFragment:
    """A probe of ``fragment``.

    Args:
        segment: What the fragment computes.
        fragment: The graph to run.
        store: Where its weights are.
        specs: Options, the folder of the engine's profile files, and whether to time from outside.
        dtypes: Type of each input.

    Raises:
        ClusterError: The execution provider is not available, or the engine refuses the fragment.
    """
    options, folder, timed = specs
    start_s = time.perf_counter()
    traced = _open(fragment, store, options, folder)
    load_s = time.perf_counter() - start_s
    plain = _open(fragment, store, options, None) if timed else None
    feeds = draw_feeds(segment, dtypes)
    is_alone = options.threads == 1 and options.provider == CPU
    clock = time.thread_time if is_alone else time.perf_counter
    return ProfiledFragment(segment, fragment.weight_bytes, load_s, traced, plain, feeds, clock)


def draw_feeds(segment: SizedSegment, dtypes: Sequence[str]) -> dict[str, Any]:
    """A value for each input of a fragment: random numbers, zeros for integers."""
    rng = np.random.default_rng(_SEED)
    return {
        f"i{place}": _draw(rng, box.shape, dtype)
        for place, ((_, box), dtype) in enumerate(zip(segment.inputs, dtypes, strict=True))
    }


def open_plain(fragment: Fragment, store: BlobStore, options: MeasureOptions) -> Any:
    """A session of a fragment that the engine does not profile.

    Raises:
        ClusterError: The execution provider is not available, or the engine refuses the fragment.
    """
    return _open(fragment, store, options, None)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    if np.dtype(dtype).kind == "f":
        return rng.random(shape, np.float32).astype(dtype)
    return np.zeros(shape, dtype)


def _open(
    fragment: Fragment, store: BlobStore, options: MeasureOptions, folder: Path | None
) -> Any:
    engine = OrtEngine(options.threads, (options.provider,))
    if engine.fallback:
        raise ClusterError(f"Profile of {options.provider!r}: {engine.fallback}")
    config = engine.config
    if folder is not None:
        # The engine adds the time in milliseconds, which two sessions may share.
        config = replace(config, profile_prefix=folder / f"run-{next(_NUMBERS)}")
    blobs = {name: store.blobs[name] for name in sorted(fragment.blobs)}
    try:
        return open_session(fragment.graph, config, blobs)
    except Exception as error:  # ONNX Runtime raises a dozen types of its own
        first = str(error).strip().splitlines()[0]
        raise ClusterError(f"Layers cannot be measured: ONNX Runtime says {first}.") from None
