"""Real accuracy of networks in fewer bits, on trained networks and pictures that lie in packages.

plates: the demo's detector and reader on 501 plates drawn from seeds. classifiers: MobileNet-v2 and
EfficientNet-Lite0/1/2 on 312 crops of natural photos and 20 labelled pictures; 8 bits on integer
kernels, too. fashion: a residual network of 18 layers trained here on Fashion-MNIST, on its 10,000
pictures for tests. detection: CenterNet against its own float boxes, in fewer bits, after JPEG, and
split. pyramid: whether Faster R-CNN splits with a later first tap.

Packages are fetched by pip, npm and apt-get into the cache and unpacked there. PyTorch is needed.

python -m benchmarks.accuracy [--only PART...] [--cache DIR] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.accuracy.classifiers import compare_classifiers
from benchmarks.accuracy.detection import compare_detection
from benchmarks.accuracy.fashion import compare_fashion
from benchmarks.accuracy.packages import UnavailableError
from benchmarks.accuracy.plates import compare_plates
from benchmarks.accuracy.pyramid import compare_pyramids
from benchmarks.harness import ROOT, Row, make_parser, report, say

PARTS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "plates": compare_plates,
    "classifiers": compare_classifiers,
    "fashion": compare_fashion,
    "detection": compare_detection,
    "pyramid": compare_pyramids,
}


def main() -> int:
    """Run the parts asked for."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--cache", type=Path, default=ROOT / "out" / "accuracy")
    args = parser.parse_args()
    rows: list[Row] = []
    missing = False
    for part in args.only:
        try:
            rows += PARTS[part](args.cache)
        except UnavailableError as error:
            say(f"{part}: {error}")
            missing = True
    return report(rows, as_json=args.json) or int(missing)


if __name__ == "__main__":
    sys.exit(main())
