"""How planning time, the planner's memory and its plans grow with devices and with layers.

Devices are a laptop of the catalogue slowed down 4, 8, 12 and 16 times in turn, links have 200
Mbit/s and 2 ms. Networks are those of the zoo, and drawn ones of as many layers as is asked: a
chain of convolutions, and one with a residual sum around every two. Each point is a process of its
own, one thread, seconds of the processor. A line ends after its first point that takes longer than
``--most`` seconds. Points are written to a file as they come, and those that it has are not
measured again. Some 15 minutes of one core.

    python -m benchmarks.growth [--file growth.json] [--pictures docs] [--tables] [--json]
    python -m benchmarks.growth --axes devices --networks resnet50 --sizes 2 4 --planners cut
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from benchmarks.growth_tables import draw_pictures, list_tables
from benchmarks.harness import ROOT, Row, find_model, make_parser, report, say
from partita.files import write_whole
from partita.zoo.builder import Builder

Axis = Literal["devices", "layers"]

DEVICES = (2, 4, 8, 16, 32, 64, 128)
LAYERS = (20, 50, 100, 200, 500, 1000)
#: Networks over devices, and over layers with the devices that each is planned for.
REAL = ("resnet50", "vgg16")
DRAWN = (("residual", 4), ("residual", 16), ("chain", 4))
#: Planners with what they are asked for: what they are there for.
PLANNERS = (
    ("best", "latency"),
    ("best", "throughput"),
    ("cut", "latency"),
    ("proportional_rows", "latency"),
    ("aofl", "latency"),
    ("coedge", "latency"),
    ("collaborative", "throughput"),
)
#: Of drawn networks, by quarters: each begins with a stride of 2.
WIDTHS = (16, 32, 64, 128)
#: Sizes whose plan is compared with one of a longer search.
SEARCHED_LONGER = (4, 16, 100)
MOST_S, LONGER_S = 90.0, 30.0


@dataclass(frozen=True)
class Point:
    """One plan that is asked for.

    Attributes:
        size: Devices or layers, by the axis.
        budget_s: Seconds that the search shall use, all of them; None for the usual search.
    """

    axis: Axis
    network: str
    devices: int
    planner: str
    objective: str
    size: int
    budget_s: float | None = None

    @property
    def line(self) -> str:
        """What the points of one line share."""
        at = f", {self.devices} devices" if self.axis == "layers" else ""
        longer = "" if self.budget_s is None else f", {self.budget_s:g} s"
        return f"{self.network}{at}, {self.planner}, {self.objective}{longer}"

    @property
    def key(self) -> str:
        """Its name in the file."""
        return f"{self.axis}: {self.line}: {self.size}"

    @property
    def model(self) -> str:
        """The name of the network, drawn ones with their layers."""
        return self.network if self.axis == "devices" else f"{self.network}-{self.size}"


def draw_network(kind: str, layers: int) -> onnx.ModelProto:
    """Return a network of so many layers for images of 224 x 224.

    Args:
        kind: ``chain``, or ``residual`` with a sum around every two convolutions.
        layers: Convolutions with their activations, a mean over space, flattening, a dense layer.
    """
    builder = Builder(f"{kind}-{layers}")
    x = builder.add_input("input", (1, 3, 224, 224))
    convs, number = layers - 3, 0
    while number < convs:
        width = WIDTHS[len(WIDTHS) * number // convs]
        grows = builder.shapes[x][1] != width
        before, is_pair = x, kind == "residual" and not grows and number + 1 < convs
        x = builder.conv(x, f"conv{number}", width, stride=2 if grows else 1, bias=True)
        x = builder.relu(x, f"relu{number}")
        if is_pair:
            number += 1
            x = builder.conv(x, f"conv{number}", width, bias=True)
            x = builder.relu(builder.add(x, before, f"add{number}"), f"relu{number}")
        number += 1
    return builder.finish(builder.dense(builder.flatten(builder.mean(x, "mean"), "flat"), "fc", 10))


def list_points(args: argparse.Namespace) -> Iterator[Point]:
    """Yield what is asked for, the small ones of each line first."""
    planners = [pair for pair in PLANNERS if pair[0] in args.planners]
    if "devices" in args.axes:
        for network in (name for name in REAL if name in args.networks):
            for planner, objective in planners:
                for size in args.sizes or DEVICES:
                    yield Point("devices", network, size, planner, objective, size)
    if "layers" in args.axes:
        for network, devices in (pair for pair in DRAWN if pair[0] in args.networks):
            for planner, objective in planners:
                for size in args.sizes or LAYERS:
                    yield Point("layers", network, devices, planner, objective, size)


def with_longer(points: Sequence[Point], longer_s: float) -> Iterator[Point]:
    """Yield the points, and after some of ``best`` the same with a longer search."""
    for point in points:
        yield point
        if longer_s and point.planner == "best" and point.size in SEARCHED_LONGER:
            yield Point(**{**asdict(point), "budget_s": longer_s})


class Study:
    """Measures points, and keeps them in a file."""

    def __init__(self, file: Path | None, most_s: float) -> None:
        self._file, self._most_s = file, most_s
        self.found: dict[str, dict[str, Any]] = {}
        if file is not None and file.exists():
            self.found = json.loads(file.read_text())

    def run(self, points: Sequence[Point]) -> None:
        """Measure what is not known yet."""
        ended = set[str]()
        with tempfile.TemporaryDirectory() as folder:
            for point in points:
                known = self.found.get(point.key)
                if known is None and point.line not in ended:
                    known = self._measure(point, Path(folder))
                    self._keep(point, known)
                if known is None or _total_s(known) > self._most_s:
                    ended.add(point.line)

    def _measure(self, point: Point, folder: Path) -> dict[str, Any]:
        path = folder / f"{point.model}.onnx"
        if not path.exists():
            for old in folder.iterdir():
                old.unlink()
            is_drawn = point.axis == "layers"
            model = draw_network(point.network, point.size) if is_drawn else find_model(point.model)
            onnx.save(model, path)
        command = [
            *(sys.executable, "-m", "benchmarks.growth_point", str(path)),
            *("--devices", str(point.devices), "--planner", point.planner),
            *("--objective", point.objective),
        ]
        if point.budget_s is not None:
            command += ["--budget", str(point.budget_s)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
        )
        if done.returncode:
            raise RuntimeError(f"{point.key} failed: {done.stderr.strip()[-500:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {"point": asdict(point), **found}

    def _keep(self, point: Point, found: dict[str, Any]) -> None:
        self.found[point.key] = found
        say(f"{point.key}: {found.get('none') or f'{_total_s(found):.1f} s'}")
        if self._file is not None:
            write_whole(self._file, json.dumps(self.found, indent=1).encode())


def _total_s(found: dict[str, Any]) -> float:
    """The seconds of the processor of one point."""
    return float(sum(found.get("seconds", {}).values()))


def power_law(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """Return the exponent of the power law nearest to values, and the part that it explains.

    None where fewer than three are above nothing.

    >>> [round(number, 3) for number in power_law([2, 4, 8], [1, 4, 16])]
    [2.0, 1.0]
    """
    kept = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0]
    if len(kept) < 3:
        return None
    x, y = np.log(np.array(kept, dtype=float)).T
    slope, height = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    left = float(((y - slope * x - height) ** 2).sum())
    return float(slope), 1.0 - left / spread if spread > 0 else 1.0


def line_rows(found: dict[str, dict[str, Any]]) -> list[Row]:
    """Return per line the seconds of planning at its largest size, and the exponent."""
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one in found.values():
        point = Point(**one["point"])
        if point.budget_s is None and "seconds" in one:
            lines.setdefault((point.axis, point.line), []).append(
                (point.size, one["seconds"]["plan"])
            )
    rows = []
    for (axis, line), values in lines.items():
        sizes, seconds = zip(*sorted(values), strict=True)
        law = power_law(sizes, seconds)
        case = f"{line}, {sizes[-1]}" + (" devices" if axis == "devices" else " layers")
        grows = "" if law is None else f"as {axis}^{law[0]:.2f}, R2 {law[1]:.2f}"
        rows.append(Row(case, "s", seconds[-1], None, None, grows, None))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = list(dict.fromkeys(name for name, _ in PLANNERS))
    networks = list(dict.fromkeys([*REAL, *(name for name, _ in DRAWN)]))
    parser.add_argument("--axes", nargs="+", choices=("devices", "layers"), default=None)
    parser.add_argument("--networks", nargs="+", choices=networks, default=networks)
    parser.add_argument("--planners", nargs="+", choices=names, default=names)
    parser.add_argument("--sizes", nargs="+", type=int, help="in place of all")
    parser.add_argument("--most", type=float, default=MOST_S, help="seconds that end a line")
    parser.add_argument("--longer", type=float, default=LONGER_S, help="seconds; 0 for none")
    parser.add_argument("--file", type=Path, help="points, taken from it and written to it")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    parser.add_argument("--tables", action="store_true", help="print tables of all points, too")
    args = parser.parse_args()
    args.axes = args.axes or ["devices", "layers"]
    study = Study(args.file, args.most)
    study.run(list(with_longer(list(list_points(args)), args.longer)))
    if args.tables:
        print("\n".join(list_tables(study.found, power_law)))
    if args.pictures is not None:
        for name, picture in draw_pictures(study.found).items():
            write_whole(args.pictures / name, picture)
    return report(line_rows(study.found), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
