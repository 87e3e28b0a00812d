"""The study: which networks to train next, and what those that are trained say."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import msgspec

from benchmarks.accuracy.packages import FASHION, fetch
from benchmarks.harness import Row, say, shown
from benchmarks.separable_training.networks import (
    CHANCE,
    CONTROLLER,
    MOST_SHARE,
    PLAIN,
    SEARCH,
    SYNCHRONOUS,
    TRAINED_CHANCE,
    Job,
    do,
)
from partita.errors import InputError
from partita.files import write_whole
from partita.reproduce.separable.intervals import Difference, difference
from partita.reproduce.separable.results import Curve, Trained, TrainingResults, load_results
from partita.reproduce.separable.training import EQUAL, TALKING
from partita.separable.options import TrainOptions

#: What is trained for each seed, in this order.
KINDS = {
    EQUAL: (PLAIN, "separable", SYNCHRONOUS),
    TALKING: (
        *(PLAIN, "silent", "separable", SEARCH + CONTROLLER, "found"),
        *(SEARCH + CHANCE, "random", SEARCH + TRAINED_CHANCE),
    ),
}
#: Whose policy a network is trained under, or as many bytes of which are drawn.
_POLICY_OF = {
    "found": SEARCH + CONTROLLER,
    SEARCH + CHANCE: SEARCH + CONTROLLER,
    "random": SEARCH + CHANCE,
    SEARCH + TRAINED_CHANCE: SEARCH + CONTROLLER,
}
#: Targets, in points: of equal size, of silence, of what is found, and an interval's width.
_MOST_BELOW, _LEAST_COST, _MOST_WIDTH = 0.5, 1.5, 0.6
Result = tuple[Trained, Curve | None]


@dataclass(frozen=True)
class Scale:
    """How large a study is.

    Attributes:
        networks: Of each part.
        tested: Test pictures.
        seeds: Least and most.
        rates: Highest learning rates: of the plain network, and of networks in groups.
        mixed: Whether networks are trained in bfloat16.
    """

    networks: Mapping[str, str]
    images: int
    epochs: int
    batch: int
    tested: int = 10_000
    seeds: tuple[int, int] = (5, 20)
    rates: tuple[float, float] = (0.1, 0.1)
    mixed: bool = False

    def words(self, part: str) -> str:
        """What a part is, for people; results of the same words may be compared."""
        return (
            f"{self.networks[part]} on {self.images:,} pictures of Fashion-MNIST, a tenth of them"
            f" held out, {self.epochs} epochs{' in bfloat16' if self.mixed else ''}, batches of"
            f" {self.batch}, rates {self.rates[0]:g} and {self.rates[1]:g}, judged by"
            f" {self.tested:,}"
        )

    def options(self, kind: str) -> TrainOptions:
        """How a network of a kind is trained."""
        return TrainOptions(
            images=self.images,
            epochs=self.epochs,
            batch=self.batch,
            rate=self.rates[kind != PLAIN],
            augment=False,
            mixed=self.mixed,
        )


@dataclass(frozen=True)
class Wanted:
    """What of a study is run now.

    Attributes:
        kinds: Of networks and searches; all where there are none.
        hours: After which nothing is begun.
    """

    parts: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    hours: float | None = None

    def __post_init__(self) -> None:
        known = {kind for part in self.parts for kind in KINDS[part]}
        unknown = [kind for kind in self.kinds if kind not in known]
        if unknown:
            allowed = ", ".join(sorted(known))
            raise InputError(f"--kinds '{unknown[0]}': allowed are {allowed}.", subject="--kinds")

    def kinds_of(self, part: str) -> list[str]:
        """What is trained in a part, in order."""
        return [kind for kind in KINDS[part] if not self.kinds or kind in self.kinds]


def ready_jobs(
    scale: Scale, wanted: Wanted, results: TrainingResults, folders: tuple[Path, Path]
) -> Iterator[Job]:
    """What can be trained now, the lowest seeds first.

    Args:
        folders: Of the pictures, and of weights.
    """
    pictures, weights = folders
    least, most = scale.seeds
    for seed in range(most):
        for part in wanted.parts:
            if seed >= least and is_decided(part, results):
                continue
            done = {kind: results.find(part, kind).get(seed) for kind in KINDS[part]}
            for kind in wanted.kinds_of(part):
                run = done[kind]
                source = done[_POLICY_OF[kind]] if kind in _POLICY_OF else None
                if run is None and (source is not None or kind not in _POLICY_OF):
                    yield Job(
                        part,
                        kind,
                        seed,
                        scale.networks[part],
                        scale.options(kind),
                        scale.tested,
                        pictures,
                        weights / f"{part}-{seed}.safetensors",
                        source.policy if source is not None else "",
                    )


def is_decided(part: str, results: TrainingResults) -> bool:
    """Whether more seeds would change nothing that is asked."""
    if part == EQUAL:
        found = difference(results, part, "separable", "plain")
        return found is not None and abs(found.mean + _MOST_BELOW) > found.half
    found = difference(results, part, "found", "random")
    return found is not None and 2 * found.half <= _MOST_WIDTH


def run_study(
    scale: Scale, wanted: Wanted, keep: Path, cache: Path, *, processes: int
) -> list[Row]:
    """Train what is missing, and return what all of it says.

    Raises:
        InputError: The file has results of another scale.
        UnavailableError: There are no pictures.
    """
    results = load_results(keep)
    for part in wanted.parts:
        words = results.scales.setdefault(part, scale.words(part))
        if words != scale.words(part):
            raise InputError(
                f"Results '{keep}' are of another scale: {words}, not {scale.words(part)}. Name"
                " another file with --keep.",
                subject=str(keep),
            )
    (labels,) = fetch(FASHION, cache).rglob("train-labels*")
    weights = keep.parent / f"{keep.stem}-weights"
    weights.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + (3600 * wanted.hours if wanted.hours is not None else float("inf"))
    folders = (labels.parent, weights)
    running: dict[Future[Result], Job] = {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        while True:
            for job in ready_jobs(scale, wanted, results, folders):
                if len(running) >= processes or time.monotonic() >= end_s:
                    break
                if job not in running.values():
                    running[pool.submit(do, job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                _add(results, running.pop(future), future.result())
                write_whole(keep, msgspec.json.format(msgspec.json.encode(results)))
    return [row for part in wanted.parts for row in _rows(part, results)]


def _add(results: TrainingResults, job: Job, result: Result) -> None:
    run, curve = result
    results.runs.append(run)
    if curve is not None:
        results.curves.append(curve)
    judged_on = "validation" if job.kind.startswith(SEARCH) else "test"
    say(
        f"{job.title}: {run.accuracy:.2%} of {judged_on} pictures, {run.byte_share:.1%} of the"
        f" ring's bytes, {run.seconds:.0f} s of processor time"
    )


def _rows(part: str, results: TrainingResults) -> Iterator[Row]:
    runs = [run for run in results.runs if run.part == part]
    for kind in dict.fromkeys(run.kind for run in runs):
        share = mean(run.accuracy for run in runs if run.kind == kind)
        yield shown(f"{part}: {kind}", "%", 100 * share)
    if part == EQUAL:
        yield from _compare(results, part, ("separable", "plain"), -_MOST_BELOW, is_low=True)
        yield from _compare(results, part, (SYNCHRONOUS, "plain"), None)
        return
    yield from _compare(results, part, ("plain", "silent"), _LEAST_COST)
    yield from _compare(results, part, ("found", "plain"), -_MOST_BELOW)
    yield from _compare(results, part, ("found", "random"), None)
    yield from _compare(results, part, ("separable", "plain"), None)
    found = list(results.find(part, "found").values())
    if found:
        share, byte_share = (
            100 * max(getattr(run, name) for run in found) for name in ("share", "byte_share")
        )
        most = 100 * MOST_SHARE
        yield Row(f"{part}: most that a found policy sends; peer: in bytes", "%", share,
                  byte_share, None, f"<= {most:.2f} %", share <= most)  # fmt: skip


def _compare(
    results: TrainingResults,
    part: str,
    pair: tuple[str, str],
    least: float | None,
    *,
    is_low: bool = False,
) -> Iterator[Row]:
    """The row of a difference, held against the least that it is to be.

    Args:
        is_low: Whether the whole interval has to be above that, not the mean alone.
    """
    found: Difference | None = difference(results, part, *pair)
    if found is None:
        return
    case = f"{part}: {pair[0]} less {pair[1]} ({found.words})"
    if least is None:
        yield shown(case, "points", found.mean)
        return
    reached = found.low if is_low else found.mean
    target = f">= {least:g} points" + (" with 90 % confidence" if is_low else "")
    yield Row(case, "points", found.mean, None, None, target, reached >= least)
