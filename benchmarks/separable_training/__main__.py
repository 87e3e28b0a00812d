"""Training of separable networks: how fast it is, and what networks are worth that were trained.

speed: images per second of the separable against the plain network, same batch, on one thread, and
the time per kind of operation; with channels first, and compiled, which fuses normalisations.

study: networks trained on Fashion-MNIST, the same pictures in the same order for all of a seed.
Part ``equal``: the separable and the plain network, as large. Part ``talking``: a
network for which silence is dear, and policies that the controller and chance found for it. Results
are added to a file after each network, and what the file has is not trained again: a study may be
run in parts, for as long as there is time. Seeds are added until intervals are narrow enough.

    python -m benchmarks.separable_training speed [--network 4x16d-20] [--batch 64]
    python -m benchmarks.separable_training study [--hours 3] [--processes 2] [--keep FILE]

``partita reproduce separable`` shows what the file has, where it is not put elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.harness import ROOT, make_parser, report
from benchmarks.separable_training.speed import measure_speed
from benchmarks.separable_training.study import Scale, run_study
from partita.cli.output import cache_folder
from partita.reproduce.separable.results import RESULTS


def main() -> int:
    """Measure, or train."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=("speed", "study"), nargs="?", default="speed")
    parser.add_argument("--network", default="4x16d-20", help="of speed and part equal")
    parser.add_argument("--talking", default="4x4d-20", help="network of part talking")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="steps that are timed")
    parser.add_argument("--images", type=int, default=10_000, help="training pictures")
    parser.add_argument("--tested", type=int, default=10_000, help="test pictures")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--least-seeds", type=int, default=5)
    parser.add_argument("--most-seeds", type=int, default=20)
    parser.add_argument("--parts", nargs="+", default=["equal", "talking"])
    parser.add_argument("--hours", type=float, default=None, help="begin nothing after so long")
    parser.add_argument("--processes", type=int, default=1, help="each has one thread")
    parser.add_argument("--keep", type=Path, default=cache_folder("reproduce") / RESULTS)
    parser.add_argument("--cache", type=Path, default=ROOT / "out" / "accuracy")
    args = parser.parse_args()
    if args.what == "speed":
        rows = measure_speed(args.network, args.batch, args.rounds)
    else:
        scale = Scale(
            networks={"equal": args.network, "talking": args.talking},
            images=args.images,
            epochs=args.epochs,
            batch=args.batch,
            tested=args.tested,
            seeds=(args.least_seeds, args.most_seeds),
        )
        rows = run_study(
            scale, args.parts, args.keep, args.cache, hours=args.hours, processes=args.processes
        )
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
