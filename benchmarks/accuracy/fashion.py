"""A narrow residual network of 18 layers on Fashion-MNIST: trained here, then in fewer bits.

Source: He et al. 2016 for the network, with 16 to 64 channels; Xiao et al. 2017 for the pictures.
The trained network is kept beside the packages; training goes on for minutes on two cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from benchmarks.accuracy.comparison import SETTINGS, accuracy, answer_all, quantise
from benchmarks.accuracy.export import export
from benchmarks.accuracy.packages import FASHION, fetch
from benchmarks.harness import Row, at_least, at_most, say, shown
from partita.graph import load_graph
from partita.quantisation import collect_ranges
from partita.quantisation.samples import Feeds
from partita.regions import Array
from partita.separable.mnist import MnistPart, read_mnist

#: Channels of the four groups of two blocks, and the step of each group's first.
_GROUPS = ((16, 1), (32, 2), (48, 2), (64, 2))
_CLASSES, _SIZE = 10, 28
_EPOCHS, _BATCH, _RATE, _SEED = 3, 128, 0.2, 0
#: Pictures that ranges are found on, the first of those it was trained on; and of a run.
_SAMPLES, _TOGETHER = 200, 100
#: Of the pictures that it was not trained on, percent; and of its training, seconds on two cores.
_LEAST_RIGHT, _MOST_S = 88.0, 600.0
_HELD_OUT: MnistPart = "t10k"


class Block(nn.Module):
    """Two convolutions of 3 x 3, and what they are added to."""

    def __init__(self, before: int, channels: int, step: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(before, channels, 3, step, 1, bias=False), nn.BatchNorm2d(channels)),
            nn.ReLU(),
            *(nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)),
        )
        self.shortcut: nn.Module = nn.Identity()
        if step > 1 or before != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, channels, 1, step, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(N, before, H, W) to (N, channels, H / step, W / step)."""
        return torch.relu(self.body(x) + self.shortcut(x))


def narrow_resnet() -> nn.Sequential:
    """The network, untrained: (N, 1, 28, 28) to (N, 10)."""
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)]
    layers += [nn.ReLU(), nn.MaxPool2d(2)]
    before = 16
    for channels, step in _GROUPS:
        layers += [Block(before, channels, step), Block(channels, channels, 1)]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, _CLASSES))


def compare_fashion(cache: Path) -> Iterator[Row]:
    """The rows of the trained network on the 10,000 pictures that it has not seen."""
    folder = fetch(FASHION, cache)
    path = cache / "fashion.onnx"
    if not path.exists():
        seconds = train(folder, path)
        yield at_most("fashion: training", "s", seconds, _MOST_S)
    graph = load_graph(path, name="fashion")
    judged, labels = _read(folder, _HELD_OUT)
    inputs = _batches(judged)
    plain = accuracy(answer_all(graph, inputs).reshape(-1, _CLASSES), labels)
    right = f"right of {len(labels)}"
    yield at_least(f"fashion: float, {right}", "%", plain, _LEAST_RIGHT)
    ranges = collect_ranges(graph, _batches(_read(folder, "train")[0][:_SAMPLES]))
    for setting in SETTINGS:
        words = f"weights {setting[0]}, activations {setting[1]}"
        say(f"fashion: {words}")
        answers = answer_all(quantise(graph, ranges, setting), inputs).reshape(-1, _CLASSES)
        yield shown(f"fashion: {words}, {right}", "%", accuracy(answers, labels), plain)


def train(folder: Path, path: Path) -> float:
    """Train the network from its seed and write it; return the seconds that training took."""
    images, labels = _read(folder, "train")
    network = narrow_resnet_seeded()
    optimiser = torch.optim.SGD(
        network.parameters(), _RATE, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    steps = -(-len(images) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, _EPOCHS * steps)
    pictures, classes = torch.from_numpy(images), torch.from_numpy(labels)
    start_s = time.perf_counter()
    network.train()
    for epoch in range(_EPOCHS):
        for places in torch.split(torch.randperm(len(images)), _BATCH):
            batch = pictures[places]
            batch = torch.where(torch.rand(len(batch), 1, 1, 1) < 0.5, batch, batch.flip(3))
            loss = nn.functional.cross_entropy(network(batch), classes[places])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
        say(f"fashion: epoch {epoch + 1} of {_EPOCHS}, {time.perf_counter() - start_s:.0f} s")
    seconds = time.perf_counter() - start_s
    onnx.save(export(network, (_TOGETHER, 1, _SIZE, _SIZE)), path)
    return seconds


def narrow_resnet_seeded() -> nn.Sequential:
    """The network with the weights that training begins with; draws go on from its seed."""
    torch.manual_seed(_SEED)
    return narrow_resnet()


def _read(folder: Path, part: MnistPart) -> tuple[Array, Array]:
    """Pictures (n, 1, 28, 28), about 0 with a deviation of 1, and their classes."""
    (labels_path,) = folder.rglob(f"{part}-labels*")
    pixels, classes = read_mnist(labels_path.parent, part)
    scaled = (pixels.astype(np.float32) / 255 - np.float32(0.286)) / np.float32(0.353)
    return scaled[:, None], classes


def _batches(images: Array) -> list[Feeds]:
    return [{"image": batch} for batch in np.split(images, len(images) // _TOGETHER)]
