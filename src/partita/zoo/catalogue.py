"""The models on offer, with the published counts that they must meet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from partita.errors import ModelError
from partita.zoo.builder import Builder
from partita.zoo.efficientnet import add_efficientnet_b0
from partita.zoo.mobilenet import add_mobilenet_v2
from partita.zoo.resnet import add_resnet50
from partita.zoo.vgg import add_vgg16, add_vgg19

INPUT = "input"
SIZE = 224
#: Every model here halves the image five times.
MIN_SIZE = 32


@dataclass(frozen=True)
class ZooEntry:
    """One model.

    Attributes:
        name: What ``build_model`` takes.
        parameters: Learned numbers: weights and biases, and scale and shift of normalisations, not
            their running statistics.
        macs: Multiply-accumulates of convolutions and matrix products for one image of 224 x 224.
        source: Where both counts are published.
    """

    name: str
    parameters: int
    macs: int
    source: str
    add: Callable[[Builder, str], str] = field(repr=False, compare=False)


_TORCHVISION = "torchvision model documentation, 'num_params' and 'GFLOPS' of the weights table"

ZOO: dict[str, ZooEntry] = {
    entry.name: entry
    for entry in (
        ZooEntry("vgg16", 138_357_544, 15_470_264_320, _TORCHVISION, add_vgg16),
        ZooEntry("vgg19", 143_667_240, 19_632_062_464, _TORCHVISION, add_vgg19),
        ZooEntry("resnet50", 25_557_032, 4_089_184_256, _TORCHVISION, add_resnet50),
        ZooEntry("mobilenet_v2", 3_504_872, 300_774_272, _TORCHVISION, add_mobilenet_v2),
        ZooEntry("efficientnet_b0", 5_288_548, 385_814_752, _TORCHVISION, add_efficientnet_b0),
    )
}


def build_model(
    name: str, *, seed: int = 0, batch: int = 1, size: int | None = None
) -> onnx.ModelProto:
    """Return a model with weights drawn from a seed; equal arguments give equal bytes.

    Args:
        name: A key of ``ZOO``.
        seed: Seed of the weights, from 0.
        batch: Images per input.
        size: Height and width of the image in pixels, 224 unless given. Another size changes the
            first dense layer of the VGGs, and with it their parameter count.

    Returns:
        Opset 17; input ``input`` (batch, 3, size, size), one output, the logits (batch, 1000).

    Raises:
        ModelError: The name is not in the zoo, or a number is out of range.

    >>> build_model("mobilenet_v2", size=64).graph.input[0].name
    'input'
    """
    if name not in ZOO:
        raise ModelError(
            f"Model '{name}' is not in the zoo: it has {', '.join(ZOO)}.", subject=name
        )
    size = SIZE if size is None else size
    for what, value, least in (("seed", seed, 0), ("batch", batch, 1), ("size", size, MIN_SIZE)):
        if value < least:
            raise ModelError(
                f"Model '{name}' cannot be built: {what} is {value}, at least {least} is allowed.",
                subject=name,
            )
    builder = Builder(name, seed=seed)
    image = builder.add_input(INPUT, (batch, 3, size, size))
    return builder.finish(ZOO[name].add(builder, image))


def write_model(model: onnx.ModelProto, path: str | Path) -> None:
    """Write a model to ``path``: the whole file appears, or nothing.

    Raises:
        ModelError: The file cannot be written.
    """
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(model.SerializeToString())
        os.replace(part, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise ModelError(
            f"Model file '{path}' cannot be written: {error.strerror}.", subject=str(path)
        ) from error
