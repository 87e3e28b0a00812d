"""Training of separable networks: how fast it is, and what networks are worth that were trained.

speed: images per second of the separable against the plain network, same batch, on one thread, and
the time per kind of operation; with channels first, and compiled, which fuses normalisations.

study: networks trained on Fashion-MNIST, the same pictures in the same order for all of a seed.
Rates are those at which a short training of each was best. Part ``equal``: the plain network and
the separable one, as large, with staleness 2 and with none. Part ``talking``: a network for which
silence is dear, and policies that the controller and chance found for it. Results are added to a
file after each network, and what the file has is not trained again: a study may be run in parts,
for as long as there is time. Seeds are added until intervals are narrow enough. With ``--kinds
plain silent`` part ``talking`` first shows what silence costs, before anything is searched; the
rest is added by the same command without.

dropped: networks trained on Fashion-MNIST with so many of the messages dropped, and how many test
pictures each has right when the messages of one group do not come, or none: what it costs to go on
without a device. As it is, about 7 minutes on one core.

    python -m benchmarks.separable_training speed [--network 4x16d-20] [--batch 64]
    python -m benchmarks.separable_training study [--mixed] [--hours 3] [--processes 2]
        [--keep FILE]
    python -m benchmarks.separable_training dropped [--drop 0 0.2] [--processes 2]

``partita reproduce separable`` shows what the file has, where it is not put elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.harness import ROOT, make_parser, report
from benchmarks.separable_training.dropped import PART as DROPPED
from benchmarks.separable_training.dropped import measure_losses
from benchmarks.separable_training.speed import measure_speed
from benchmarks.separable_training.study import Scale, Wanted, run_study
from partita.cli.output import cache_folder
from partita.reproduce.separable.results import RESULTS
from partita.reproduce.separable.training import EQUAL, TALKING

#: What flags are where they are not given: a study's, and those of what takes minutes.
_STUDY = {"network": "4x16d-20", "batch": 16, "rate": 0.1, "rate_of_groups": 0.05}
_STUDY |= {"epochs": 3, "least_seeds": 5, "images": 10_000, "tested": 10_000}
_SPEED = _STUDY | {"batch": 64}
_MINUTES = {"network": "4x4d-11", "batch": 32, "rate": 0.05, "rate_of_groups": 0.05}
_MINUTES |= {"epochs": 5, "least_seeds": 1, "images": 3_000, "tested": 1_000}


def main() -> int:
    """Measure, or train."""
    args = _read_flags()
    if args.what == "speed":
        rows = measure_speed(args.network, args.batch, args.rounds)
        return report(rows, as_json=args.json)
    scale = Scale(
        networks={EQUAL: args.network, TALKING: args.talking, DROPPED: args.network},
        images=args.images,
        epochs=args.epochs,
        batch=args.batch,
        tested=args.tested,
        seeds=(args.least_seeds, args.most_seeds),
        rates=(args.rate, args.rate_of_groups),
        mixed=args.mixed,
    )
    if args.what == "dropped":
        rows = measure_losses(scale, args.drop, args.cache, processes=args.processes)
    else:
        wanted = Wanted(tuple(args.parts), tuple(args.kinds or ()), args.hours)
        rows = run_study(scale, wanted, args.keep, args.cache, processes=args.processes)
    return report(rows, as_json=args.json)


def _read_flags() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=("speed", "study", "dropped"), nargs="?", default="speed")
    parser.add_argument("--network", help="of speed, of part equal and of dropped")
    parser.add_argument("--talking", default="4x4d-20", help="network of part talking")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rounds", type=int, default=5, help="steps that are timed")
    parser.add_argument("--images", type=int, help="training pictures")
    parser.add_argument("--tested", type=int, help="test pictures")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--rate-of-groups", type=float, help="the same of networks in groups")
    parser.add_argument("--mixed", action="store_true", help="train in bfloat16")
    parser.add_argument("--least-seeds", type=int, help="of dropped all that there are")
    parser.add_argument("--most-seeds", type=int, default=20)
    parser.add_argument("--drop", type=float, nargs="+", default=[0, 0.2], metavar="SHARE")
    parser.add_argument("--parts", nargs="+", choices=(EQUAL, TALKING), default=[EQUAL, TALKING])
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="of networks; all by default")
    parser.add_argument("--hours", type=float, default=None, help="begin nothing after so long")
    parser.add_argument("--processes", type=int, default=1, help="each has one thread")
    parser.add_argument("--keep", type=Path, default=cache_folder("reproduce") / RESULTS)
    parser.add_argument("--cache", type=Path, default=ROOT / "out" / "accuracy")
    args = parser.parse_args()
    defaults = {"speed": _SPEED, "study": _STUDY, "dropped": _MINUTES}[args.what]
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


if __name__ == "__main__":
    sys.exit(main())
