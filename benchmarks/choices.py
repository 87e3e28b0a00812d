"""What fewer bits and other cuts cost and gain: the picture of docs/edge-cloud.md.

A residual network of the zoo, whose weights are drawn from a seed, between the camera and the
server of the AUTO-SPLIT paper's simulation (Eyeriss and TPU); pictures are drawn, too, so what is
judged is the outputs' signal, and no accuracy is claimed.

python -m benchmarks.choices [--model resnet18] [--size 128] [--pictures 24]
                             [--rate "15 Mbit/s"] [--drop 0.5%] [-o choices.png] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Row, at_most, make_parser, report
from partita.cli import main as partita
from partita.zoo import build_model, write_model

CLUSTER = """
[cluster]
name = "gate"
requester = "camera"

[[device]]
name = "camera"
kind = "eyeriss"

[[device]]
name = "server"
kind = "tpu-v1"

[[link]]
between = ["*", "*"]
bandwidth = "{rate}"
latency = "1 ms"
"""


def draw_pictures(folder: Path, count: int, size: int) -> None:
    """Write pictures of smooth patches, standardised as classifiers are trained with them."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        patches = rng.normal(size=(1, 3, size // 8, size // 8)).repeat(8, axis=2).repeat(8, axis=3)
        np.save(folder / f"{number}.npy", patches.astype(np.float32))


def ask(words: Sequence[str]) -> Any:
    """Return what a command replies.

    Raises:
        RuntimeError: It failed; it has said why.
    """
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = partita([*words, "--json"])
    if code:
        raise RuntimeError(f"partita {words[0]} ended with exit code {code}")
    return json.loads(told.getvalue())


def rows_of(reply: Any, case: str, drop: str) -> list[Row]:
    """Return the plan beside the network as it is, and what it loses."""
    ours_s = reply["latency_s"]["p50"]
    whole_s = min(one["latency_s"] for one in reply["trade_offs"] if not one["bits"])
    return [
        Row(f"{case}; peer: the network as it is", "ms", 1e3 * ours_s, 1e3 * whole_s,
            ours_s / whole_s, "ratio <= 1", ours_s <= whole_s),
        at_most(f"{case}: signal lost", "%", 100 * reply["accuracy"]["drop"],
                float(drop.removesuffix("%"))),
    ]  # fmt: skip


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--rate", default="15 Mbit/s")
    parser.add_argument("--drop", default="0.5%")
    parser.add_argument("-o", "--output", help="picture of all choices")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / f"{args.model}.onnx"  # the picture bears its name
        write_model(build_model(args.model, size=args.size), model)
        (folder / "gate.toml").write_text(CLUSTER.format(rate=args.rate))
        draw_pictures(folder / "pictures", args.pictures, args.size)
        reply = ask(
            [
                *("plan", str(model), "--cluster", str(folder / "gate.toml")),
                *("--planner", "autosplit", "--samples", str(folder / "pictures")),
                *("--judge", "signal", "--accuracy-drop", args.drop),
                *(("--pareto", args.output) if args.output else ()),
            ]
        )
    case = f"{args.model}, {args.size} pixels, {args.rate}, {args.drop} may be lost"
    return report(rows_of(reply, case, args.drop), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
