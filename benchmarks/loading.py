"""From file to first answer: every variant of a model, in processes of their own, in turns.

    python -m benchmarks.loading [--models NAME...] [--trials N] [--threads N]
                                 [--pytorch VARIANT...] [--choice] [--quick] [--json]

Each model is written plain, in ONNX Runtime's own format, with its weights beside it, optimised
beforehand, as a bundle, and as PyTorch's checkpoints; bundles are cut where ``choose_division``
says for the blocks as measured. The floor is what a variant can hardly be below: the longer of
copying all of the bundle's bytes once and one run of a model that is loaded. *Cold* drops the
model's own files from the page cache; libraries stay there. A ladder says which part of the gain
comes from where. The paper's six models and the two VGGs take more than an hour on two cores.
``--quick`` is for trying this script: small models, few trials, no figures to quote.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean

from benchmarks.harness import Row, make_parser, report, say
from partita.loading import choose_division
from partita.loading.cut.page_cache import forget, read_once_s
from partita.loading.serve.read_ahead import ReadAhead
from partita.reproduce.loading.bench.load_bench import LoadBench, TrialOptions, available
from partita.reproduce.loading.bench.trials import LoadTrial
from partita.reproduce.loading.published import TABLE_2, TITLES
from partita.zoo import ZOO, build_model

LARGE, SIX = ("vgg16", "vgg19"), tuple(TITLES)
TRIALS = 10
QUICK_MODELS, QUICK_SIZE, QUICK_TRIALS = ("mobilenet_v1", "squeezenet"), 64, 2
SINGLE = (
    *("plain", "ort_format", "external", "external_no_prepack"),
    *("optimised_prepack", "optimised", "optimised_still", "optimised_brief"),
)
VARIANTS = (*SINGLE, "bundle_no_ahead", "bundle")
PYTORCH = ("torch_load", "torch_mmap", "torch_safetensors", "torch_children")
IN_TURN = "torch_children_in_turn"
#: What each step adds to the one before.
LADDER = {
    "plain": "",
    "external": "weights outside, mapped",
    "optimised_prepack": "optimised beforehand",
    "optimised": "no prepacking",
    "optimised_brief": "brief spinning",
    "bundle_no_ahead": "child models",
    "bundle": "read-ahead",
}
#: Children of PyTorch's checkpoints, where the paper has none.
CHILDREN = 4
LARGE_BYTES = 100e6
#: Gains over the peer that are wanted, and what a bundle may take over its peer.
LARGE_GAIN, SIX_GAIN, COLD_GAIN, BEST_GAIN = 8.0, 3.0, 4.0, 1.15
CALL_GAIN, START_GAIN = 2.5, 3.0
#: What choosing may take for ResNet-152, in seconds, and what is learned over the optimum.
PLANNED, LEARNED, LOADERS = 60.0, 1.05, (1, 2, 4)
FLOOR_LARGE, FLOOR_SMALL, STEADY, MEMORY = 1.25, 1.5, 1.03, 1.1

State = Mapping[str, LoadTrial]


@dataclass(frozen=True)
class ModelTimes:
    """What was measured of a model.

    Attributes:
        size_bytes: Of its plain file.
        warm: Medians by variant, PyTorch's with them.
        cold: The same of files that are on disk alone, without PyTorch's.
        reads_s: Reading the bundle once, warm and cold.
        children: Of the bundle.
    """

    size_bytes: int
    warm: State
    cold: State
    reads_s: tuple[float, float]
    children: int

    def floor_s(self, *, cold: bool) -> float:
        """Return the seconds before which a first answer can hardly be there."""
        return max(self.reads_s[cold], self.warm["plain"].steady_s)

    def bound(self, *, cold: bool) -> float:
        """Return how many times sooner than the plain file an answer at the floor is."""
        found = self.cold if cold else self.warm
        return found["plain"].answered_s / self.floor_s(cold=cold)

    def gain(self, variant: str, other: str, *, cold: bool = False) -> float:
        """Return how many times sooner a variant answers than another."""
        found = self.cold if cold else self.warm
        return found[other].answered_s / found[variant].answered_s


def measure(
    name: str, options: TrialOptions, size: int | None, pytorch: Sequence[str] = PYTORCH
) -> ModelTimes:
    """Return what was measured of a model of the zoo."""
    starts = tuple(TABLE_2.get(name, {}).values())
    say(f"{name}: blocks are measured, files written")
    with LoadBench(build_model(name, size=size), options, starts) as load_bench:
        load_bench.starts = starts or load_bench.balance(CHILDREN)
        in_turn = (IN_TURN,) if "torch_children" in pytorch else ()
        torch = available((*pytorch, *in_turn))
        warm = load_bench.measure((*VARIANTS, *torch))
        chosen = load_bench.choice
        told = f"{len(chosen.ends)} children, prepack {chosen.prepack}"
        say(f"{name}: {told}")
        say(f"{name}: warm {describe(warm)}")
        cold = load_bench.measure(VARIANTS, cold=True)
        say(f"{name}: cold {describe(cold)}")
        return ModelTimes(
            load_bench.ship("plain").size_bytes,
            warm,
            cold,
            read_bundle(load_bench, options.trials),
            len(chosen.ends),
        )


def read_bundle(load_bench: LoadBench, trials: int) -> tuple[float, float]:
    """Return the seconds to read the bundle's files once, warm and cold.

    Cold, the system is asked for all of them ahead: one small read after the other is no floor.
    """
    files = load_bench.ship("bundle").files
    warm, cold = [], []
    for _ in range(trials):
        read_once_s(files)
        warm.append(read_once_s(files))
        forget(files)
        ahead = ReadAhead([(path, path.stat().st_size) for path in files])
        cold.append(read_once_s(files))
        ahead.close()
    return statistics.median(warm), statistics.median(cold)


def describe(found: State) -> str:
    return (
        ", ".join(f"{variant} {1e3 * one.answered_s:.0f}" for variant, one in found.items()) + " ms"
    )


def gain_row(case: str, ours_s: float, peer_s: float, least: float | None = None) -> Row:
    """Return the row of a time to the first answer, and how many times sooner it is."""
    ratio = peer_s / ours_s
    target = {None: "", 1.0: "never later"}.get(least, f">= {least}x sooner")
    met = None if least is None else ratio >= least
    return Row(case, "ms", 1e3 * ours_s, 1e3 * peer_s, ratio, target, met)


def mean_row(case: str, gains: Sequence[float], least: float) -> Row:
    """Return the row of a geometric mean over models."""
    mean = geometric_mean(gains)
    return Row(case, "x", mean, None, mean, f">= {least:g}x", mean >= least)


def bound_row(case: str, bounds: Sequence[float]) -> Row:
    """Return the row of what the floor allows at most, in the geometric mean over models."""
    mean = geometric_mean(bounds)
    return Row(f"{case}, at the floor", "x", mean, None, mean, "", None)


def within_row(case: str, unit: str, pair: tuple[float, float], most: float) -> Row:
    """Return the row of what may be so many times the peer's at most."""
    ratio = pair[0] / pair[1]
    return Row(case, unit, *pair, ratio, f"<= {most:g}x", ratio <= most)


def list_model(name: str, found: ModelTimes) -> Iterator[Row]:
    """Yield a model's rows against its plain file and the floor."""
    warm, cold = found.warm, found.cold
    told = f"{name} ({found.size_bytes / 1e6:.0f} MB, {found.children} children)"
    least = LARGE_GAIN if name in LARGE else None
    yield gain_row(f"{told}, warm", warm["bundle"].answered_s, warm["plain"].answered_s, least)
    most = FLOOR_LARGE if found.size_bytes > LARGE_BYTES else FLOOR_SMALL
    pair = (1e3 * warm["bundle"].answered_s, 1e3 * found.floor_s(cold=False))
    yield within_row(f"{name}, warm, against the floor", "ms", pair, most)
    case = f"{name}, cold (at the floor {found.bound(cold=True):.1f}x)"
    yield gain_row(case, cold["bundle"].answered_s, cold["plain"].answered_s)
    best = min(SINGLE, key=lambda variant: cold[variant].answered_s)
    case = f"{name}, cold, against the best session ({best})"
    yield gain_row(case, cold["bundle"].answered_s, cold[best].answered_s, 1.0)
    pair = (1e3 * cold["bundle"].answered_s, 1e3 * found.floor_s(cold=True))
    yield Row(f"{name}, cold, against the floor", "ms", *pair, pair[0] / pair[1], "", None)
    pair = (1e3 * warm["bundle"].steady_s, 1e3 * warm["plain"].steady_s)
    yield within_row(f"{name}, later answers", "ms", pair, STEADY)
    pair = (warm["bundle"].peak_bytes / 1e6, warm["plain"].peak_bytes / 1e6)
    yield within_row(f"{name}, peak memory", "MB", pair, MEMORY)


def list_pytorch(name: str, found: ModelTimes) -> Iterator[Row]:
    """Yield a model's rows against PyTorch, and its checkpoints' own gains."""
    warm = found.warm
    whole, bundle = warm["torch_load"], warm["bundle"]
    yield gain_row(f"{name}, PyTorch, from the call", bundle.answered_s, whole.answered_s)
    case = f"{name}, PyTorch, from process start"
    yield gain_row(case, bundle.from_start_s, whole.from_start_s)
    for variant in PYTORCH[1:]:
        if variant in warm:
            extra = ""
            if variant == "torch_children":
                extra = f" (bound {warm[IN_TURN].speedup_bound:.2f}x)"
            words = f"{variant.replace('_', ' ')} against torch load{extra}"
            yield gain_row(f"{name}, {words}", warm[variant].answered_s, whole.answered_s)


def list_means(found: Mapping[str, ModelTimes]) -> Iterator[Row]:
    """Yield what is wanted of all models together, and what the floor allows at most."""
    chosen = [one for name, one in found.items() if name in SIX]
    every = list(found.values())
    if chosen:
        case = f"mean of {len(chosen)} models, warm"
        yield mean_row(case, [one.gain("bundle", "plain") for one in chosen], SIX_GAIN)
        yield bound_row(case, [one.bound(cold=False) for one in chosen])
    case = f"mean of all {len(every)}, cold"
    yield mean_row(case, [one.gain("bundle", "plain", cold=True) for one in every], COLD_GAIN)
    yield bound_row(case, [one.bound(cold=True) for one in every])
    mapped = [one.gain("bundle", "optimised", cold=True) for one in every]
    yield mean_row("mean of all, cold, against one session (optimised)", mapped, BEST_GAIN)
    best = [
        min(one.cold[variant].answered_s for variant in SINGLE) / one.cold["bundle"].answered_s
        for one in every
    ]
    yield mean_row("mean of all, cold, against each model's best session", best, BEST_GAIN)
    pairs = [
        (one.warm["torch_load"], one.warm["bundle"])
        for one in found.values()
        if "torch_load" in one.warm
    ]
    if pairs:
        called = [whole.answered_s / ours.answered_s for whole, ours in pairs]
        started = [whole.from_start_s / ours.from_start_s for whole, ours in pairs]
        yield mean_row("mean of all, PyTorch, from the call", called, CALL_GAIN)
        yield mean_row("mean of all, PyTorch, from process start", started, START_GAIN)


def list_ladder(found: Mapping[str, ModelTimes]) -> Iterator[Row]:
    """Yield what each step gains over the one before: ratio; ours and peer are over plain."""
    groups = {"VGGs": LARGE, "others": SIX}
    for title, names in groups.items():
        chosen = [one for name, one in found.items() if name in names]
        for cold in (False, True) if chosen else ():
            gains = {
                variant: geometric_mean([one.gain(variant, "plain", cold=cold) for one in chosen])
                for variant in LADDER
            }
            for before, variant in pairwise(LADDER):
                case = f"ladder, {title}, {'cold' if cold else 'warm'}: {LADDER[variant]}"
                step = gains[variant] / gains[before]
                yield Row(case, "x", gains[variant], gains[before], step, "", None)


def list_rows(found: Mapping[str, ModelTimes]) -> list[Row]:
    """Return all rows of what was measured."""
    rows: list[Row] = []
    for name, one in found.items():
        rows += list_model(name, one)
    for name, one in found.items():
        rows += list_pytorch(name, one) if "torch_load" in one.warm else ()
    return [*rows, *list_means(found), *list_ladder(found)]


def list_choice(name: str, options: TrialOptions, size: int | None) -> Iterator[Row]:
    """Yield what choosing where to cut takes, and how far what is learned is from the optimum."""
    say(f"{name}: where to cut")
    began_s = time.monotonic()
    with LoadBench(build_model(name, size=size), options) as load_bench:
        children = len(load_bench.choice.ends)
        took_s = time.monotonic() - began_s
        most = PLANNED if name == "resnet152" else None
        target = "" if most is None else f"<= {most:g} s"
        met = None if most is None else took_s <= most
        case = f"{name}, measured, chosen and tried ({children} children)"
        yield Row(case, "s", took_s, None, None, target, met)
        for loaders in LOADERS:
            for cold in (False, True):
                found = choose_division(
                    load_bench.profile, method="qlearning", loaders=loaders, cold=cold
                ).chosen
                times = (1e3 * found.makespan_s, 1e3 * found.makespan_s / (1 + found.gap))
                case = f"{name}, Q-learning, {loaders} loaders, {'cold' if cold else 'warm'}"
                yield within_row(case, "ms", times, LEARNED)


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", nargs="+", choices=tuple(ZOO), metavar="NAME")
    parser.add_argument("--trials", type=int, help="processes per variant; 10")
    parser.add_argument("--threads", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--pytorch", nargs="*", choices=PYTORCH, default=PYTORCH, metavar="VARIANT")
    parser.add_argument("--choice", action="store_true", help="only where to cut")
    parser.add_argument("--quick", action="store_true", help="small models, few trials")
    args = parser.parse_args()
    names: Sequence[str] = args.models or (*LARGE, *SIX)
    trials = args.trials or (QUICK_TRIALS if args.quick else TRIALS)
    options, size = TrialOptions(args.threads, trials), None
    if args.quick:
        names, size = args.models or QUICK_MODELS, QUICK_SIZE
        options = TrialOptions(args.threads, trials, repeats=1)
    told = {"threads": options.threads, "trials": options.trials}
    if args.choice:
        chosen = [name for name in names if args.models or name in SIX]
        rows = [row for name in chosen for row in list_choice(name, options, size)]
        return report(rows, as_json=args.json, notes=told)
    found = {name: measure(name, options, size, args.pytorch) for name in names}
    return report(list_rows(found), as_json=args.json, notes=told)


if __name__ == "__main__":
    sys.exit(main())
