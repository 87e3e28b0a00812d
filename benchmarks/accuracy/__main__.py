"""Real accuracy of networks in fewer bits, on trained networks and pictures that lie in packages.

plates: the demo's detector and reader on 501 plates drawn from seeds. classifiers: MobileNet-v2 and
EfficientNet-Lite0/1/2 on 312 crops of natural photos and 20 labelled pictures; 8 bits on integer
kernels, too. fashion: a residual network of 18 layers trained here on Fashion-MNIST, on its 10,000
pictures for tests. detection: CenterNet against its own float boxes, in fewer bits, after JPEG, and
split. pyramid: whether Faster R-CNN splits with a later first tap.

Packages are fetched by pip, npm and apt-get into the cache and unpacked there. Classifiers and
fashion need PyTorch, plates the demo's networks.

python -m benchmarks.accuracy [--only PART...] [--cache DIR] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.accuracy.packages import UnavailableError
from benchmarks.harness import ROOT, Row, make_parser, report, say
from partita.errors import PartitaError

#: Modules beside this one.
PARTS = ("plates", "classifiers", "fashion", "detection", "pyramid")


def make_rows(part: str, cache: Path) -> Iterator[Row]:
    """The rows of a part; what only that part needs is loaded here.

    Raises:
        UnavailableError: A package is missing that it needs; the message says which.
    """
    try:
        compare = getattr(import_module(f"benchmarks.accuracy.{part}"), f"compare_{part}")
        yield from compare(cache)
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"Package '{error.name}' is not installed. Run: pip install 'partita[train]'"
        ) from error
    except PartitaError as error:
        raise UnavailableError(str(error)) from error


def main() -> int:
    """Run the parts asked for."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cache", type=Path, default=ROOT / "out" / "accuracy")
    args = parser.parse_args()
    rows: list[Row] = []
    missing = False
    for part in args.only:
        try:
            rows += make_rows(part, args.cache)
        except UnavailableError as error:
            say(f"{part}: {error}")
            missing = True
    return report(rows, as_json=args.json) or int(missing)


if __name__ == "__main__":
    sys.exit(main())
