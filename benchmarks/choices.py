"""What fewer bits and other cuts cost and gain: the picture of docs/edge-cloud.md.

A residual network of the zoo, whose weights are drawn from a seed, between the camera and the
server of the AUTO-SPLIT paper's simulation (Eyeriss and TPU); pictures are drawn, too, so what is
judged is the outputs' signal, and no accuracy is claimed.

python -m benchmarks.choices [--model resnet18] [--size 128] [--pictures 24]
                             [--rate "15 Mbit/s"] [--drop 0.5%] [-o choices.png]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--rate", default="15 Mbit/s")
    parser.add_argument("--drop", default="0.5%")
    parser.add_argument("-o", "--output", default="choices.png")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(build_model(args.model, size=args.size), folder / "model.onnx")
        (folder / "gate.toml").write_text(CLUSTER.format(rate=args.rate))
        draw_pictures(folder / "pictures", args.pictures, args.size)
        return partita(
            [
                *("plan", str(folder / "model.onnx"), "--cluster", str(folder / "gate.toml")),
                *("--planner", "autosplit", "--samples", str(folder / "pictures")),
                *("--judge", "signal", "--accuracy-drop", args.drop, "--pareto", args.output),
            ]
        )


if __name__ == "__main__":
    sys.exit(main())
