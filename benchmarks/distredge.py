"""``best`` against DistrEdge and its seven rivals on the paper's clusters, and DistrEdge itself.

    python -m benchmarks.distredge [--seeds 0-4] [--episodes N] [--scenarios NAME...] [--json]

All simulated, VGG-16, half precision on wires and in devices: see ``docs/reproduce.md``. Results
are kept in ``--cache`` (the user's cache by default), so that a run that was interrupted goes on;
``--parts`` chooses which parts are run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean

from benchmarks.harness import Row, make_parser, report, say
from partita.cli.actions.reproduce import parse_seeds
from partita.cli.output import cache_folder
from partita.planners import find_plan, get_planner, planner_names
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.distredge.methods import BASELINES
from partita.reproduce.study import Case, Series, Study

MODEL = "vgg16"
FOUR = (
    *(f"{group}-{rate}" for group in ("DA", "DB", "DC") for rate in (50, 300)),
    *(f"{group}-{kind}" for group in ("NA", "NB", "NC", "ND") for kind in ("nano", "xavier")),
)
SIXTEEN = ("LA", "LB", "LC", "LD")
PARTS = ("best", "distredge", "osds", "planning")
PUBLISHED, REPAIRED = "distredge_published", "distredge"
#: The control: the same exploration, and a learner that never learns.
CONTROL = {"learn": False}
SAME, FASTEST = "rows alone", "fastest"
#: What ``best`` may do, from what all others do to everything: axes and lossy wire format.
ALLOWED: dict[str, tuple[tuple[str, ...] | None, str | None]] = {
    SAME: (("rows",), None),
    "all axes": (None, None),
    "all axes and 8 bits on the wire": (None, "uint8"),
}
MOST_OSDS_S, OSDS_EPISODES = 180.0, 4000
#: Model, cluster, most seconds.
PLANNING = (("vgg16", "DB-50", 5.0), ("vgg16", "LB", 30.0), ("resnet50", "DB-50", 10.0))


def compare_best(bench: Bench, scenarios: Sequence[str]) -> Iterator[Row]:
    """Yield how far ``best`` is above every other planner, and above the published ones."""
    others = [name for name in planner_names() if name != "best" and is_rival(name)]
    gains: dict[str, list[float]] = {name: [] for name in (FASTEST, *ALLOWED)}
    for scenario in scenarios:
        rates = {name: rate_first(bench, scenario, name) for name in others}
        best = {name: rate_best(bench, scenario, name) for name in ALLOWED}
        fastest = max(others, key=rates.__getitem__)
        rival = max((*BASELINES, PUBLISHED), key=rates.__getitem__)
        gains[FASTEST].append(best[SAME] / rates[fastest])
        for name in ALLOWED:
            gains[name].append(best[name] / rates[rival])
        told = ", ".join(f"{name} {best[name]:.2f} ({gains[name][-1]:.3f}x)" for name in ALLOWED)
        peers = f"{rival} {rates[rival]:.2f}, {fastest} {rates[fastest]:.2f} images/s"
        say(f"{scenario}: {peers}; best: {told}")
    yield from list_gains(gains, f"{len(scenarios)} cases")


def list_gains(gains: Mapping[str, Sequence[float]], cases: str) -> Iterator[Row]:
    least = min(gains[FASTEST])
    row = f"best, {SAME}, over the fastest other planner: least of {cases}"
    yield Row(row, "x", least, None, least, ">= 1", least >= 1 - 1e-9)
    for name in ALLOWED:
        gain = geometric_mean(gains[name])
        row = f"best, {name}, over the best published: mean of {cases}"
        target, met = (">= 1.1", gain >= 1.1) if name == SAME else ("", None)
        yield Row(row, "x", gain, None, gain, target, met)


def rate_best(bench: Bench, scenario: str, allowed: str) -> float:
    axes, compress = ALLOWED[allowed]
    case = Case(scenario, MODEL, "best", axes=axes, compress=compress)
    return rate(Series((bench.measure(case),)))


def is_rival(name: str) -> bool:
    """Whether a planner takes part: those for small networks only do not."""
    return get_planner(name).cost != "exponential"


def compare_distredge(bench: Bench, scenarios: Sequence[str]) -> Iterator[Row]:
    """Yield how DistrEdge, repaired, is to AOFL, and the control that does not learn."""
    gains, controls = {}, []
    for scenario in (name for name in scenarios if name in FOUR):
        aofl = rate(bench.run(scenario, MODEL, "aofl"))
        gains[scenario] = rate(bench.run(scenario, MODEL, REPAIRED)) / aofl
        controls.append(rate(bench.run(scenario, MODEL, REPAIRED, **CONTROL)) / aofl)
        say(f"{scenario}: DistrEdge {gains[scenario]:.3f}x AOFL, control {controls[-1]:.3f}x")
    enough, least = sum(gain >= 1.03 for gain in gains.values()), min(gains.values())
    row = f"DistrEdge repaired over AOFL: cases of {len(gains)} with >= 1.03x"
    yield Row(row, "", enough, None, None, ">= 10", enough >= 10)
    yield Row(
        "DistrEdge repaired over AOFL, least", "x", least, None, least, ">= 0.97", least >= 0.97
    )
    unlike = [gain for name, gain in gains.items() if name[:2] in ("DB", "DC")]
    like = [gain for name, gain in gains.items() if name[:2] == "DA"]
    if unlike and like:
        ratio = mean(unlike) / mean(like)
        row = "DistrEdge's gain over AOFL: DB and DC against DA"
        yield Row(row, "x", mean(unlike), mean(like), ratio, "> 1", ratio > 1)
    ours, control = geometric_mean(gains.values()), geometric_mean(controls)
    row = "DistrEdge over AOFL, mean; peer: control that does not learn"
    yield Row(row, "x", ours, control, ours / control, "", None)


def rate(series: Series) -> float:
    """Return images per second, mean over seeds; next to nothing without a plan."""
    return 1e-9 if series.fault else series.images_per_second


def rate_first(bench: Bench, scenario: str, name: str) -> float:
    """Return images per second; of the published DistrEdge, which trains longest, for one seed."""
    if name != PUBLISHED:
        return rate(bench.run(scenario, MODEL, name))
    case = Case(scenario, MODEL, name, bench.study.seeds[0], bench.settings(name))
    return rate(Series((bench.measure(case),)))


def time_osds(bench: Bench) -> Iterator[Row]:
    """Yield the seconds of training as long as the paper's, on one core."""
    case = Case("DB-50", MODEL, PUBLISHED, settings={"episodes": OSDS_EPISODES})
    began_s = time.process_time()
    bench.plan(case)
    took_s = time.process_time() - began_s
    row = f"OSDS, VGG-16, 4 providers, {OSDS_EPISODES} episodes"
    yield Row(row, "s", took_s, None, None, f"<= {MOST_OSDS_S:.0f} s", took_s <= MOST_OSDS_S)
    yield Row("OSDS, episodes per second", "1/s", OSDS_EPISODES / took_s, None, None, "", None)


def time_planning(bench: Bench) -> Iterator[Row]:
    """Yield the seconds that ``best`` takes when left to itself."""
    for model, scenario, most_s in PLANNING:
        cost, case = bench.cost(scenario, model), Case(scenario, model, "best")
        began_s = time.process_time()
        find_plan(cost, planner="best", options=bench.options(case))
        took_s = time.process_time() - began_s
        row = f"best, {model} on {scenario}"
        yield Row(row, "s", took_s, None, None, f"<= {most_s:.0f} s", took_s <= most_s)


def make_bench(args: argparse.Namespace) -> Bench:
    study = Study(seeds=parse_seeds(args.seeds), episodes=args.episodes)
    return Bench(study, cache=ResultCache(args.cache or cache_folder("reproduce")), advance=say)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", default="0-4", help="of the methods that draw")
    parser.add_argument("--episodes", type=int, help="of their training; each one's own otherwise")
    parser.add_argument("--scenarios", nargs="+", default=[*FOUR, *SIXTEEN])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--cache", type=Path, help="folder of results")
    args = parser.parse_args()
    bench = make_bench(args)
    rows: list[Row] = []
    if "best" in args.parts:
        rows += compare_best(bench, args.scenarios)
    if "distredge" in args.parts:
        rows += compare_distredge(bench, args.scenarios)
    if "osds" in args.parts:
        rows += time_osds(bench)
    if "planning" in args.parts:
        rows += time_planning(bench)
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
