"""Cuts and widths between an edge and a cloud against trying everything, on small drawn networks.

The minimum cut on graphs of up to ten layers; the soonest split of networks of up to five layers
over every cut and all widths, within memory and a bound on errors; beside it the best split of
Algorithm 1 as printed.

python -m benchmarks.edge_cloud [--cuts 500] [--splits 200] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from math import inf, isclose
from random import Random

from tests.planners.edgecloud.cases import (
    draw_problem,
    draw_sides,
    least_by_trying,
    least_latency_by_trying,
)

from benchmarks.harness import Row, make_parser, report, say
from partita.planners.edgecloud.algorithm1 import grid_splits
from partita.planners.edgecloud.least_latency import soonest_split
from partita.planners.edgecloud.min_cut import least_cut

#: Most by which a split may be above the optimum.
MOST_MISS = 0.01


def count_equal_cuts(count: int) -> int:
    """Return on how many drawn graphs the minimum cut costs what trying every set finds."""
    equal = 0
    for seed in range(count):
        rng = Random(seed)
        sides = draw_sides(rng, rng.randint(1, 10))
        edge, least = least_cut(sides), least_by_trying(sides)
        found = inf if edge is None else sides.seconds(edge)
        equal += found == least or isclose(found, least, rel_tol=1e-9, abs_tol=1e-9)
    return equal


def split_misses(seed: int) -> tuple[float, float]:
    """Return by which part the soonest split, and Algorithm 1's, are above the optimum."""
    rng = Random(seed)
    problem, most_error = draw_problem(rng, rng.randint(1, 5))
    least_s = least_latency_by_trying(problem, most_error)
    fits = (s for s in grid_splits(problem, ["lagrangian"]) if problem.error(s) <= most_error)
    printed_s = min(map(problem.latency_s, fits))
    return soonest_split(problem, most_error).latency_s / least_s - 1, printed_s / least_s - 1


def rows_of(cuts: int, misses: Sequence[tuple[float, float]]) -> list[Row]:
    """Return the table."""
    equal = count_equal_cuts(cuts)
    ours, printed = zip(*misses, strict=True)
    count = len(misses)
    return [
        Row(f"minimum cut equals trying all, {cuts} graphs", "%", 100 * equal / cuts, None, None,
            "100 %", equal == cuts),
        Row(f"soonest split above the optimum, worst of {count}", "%", 100 * max(ours),
            100 * max(printed), None, f"<= {MOST_MISS:.0%}", max(ours) <= MOST_MISS),
        Row("the same, mean; peer: Algorithm 1 as printed", "%", 100 * statistics.fmean(ours),
            100 * statistics.fmean(printed), None, "", None),
    ]  # fmt: skip


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--splits", type=int, default=200)
    args = parser.parse_args()
    misses = []
    for seed in range(args.splits):
        misses.append(split_misses(seed))
        if seed % 20 == 19:
            say(f"{seed + 1} networks: worst miss {max(misses)[0]:.3%}")
    return report(rows_of(args.cuts, misses), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
