"""Table 7: pictures and features that are compressed before they are sent."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from partita.graph.whole import WholeModel
from partita.planners.edgecloud.network import network_of
from partita.regions import Array
from partita.regions.bit_packing import pack_codes
from partita.reproduce.autosplit.comparison import compare, find_subject
from partita.reproduce.autosplit.setting import PAPER, Setting
from partita.reproduce.autosplit.subject import Subject
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Claim, Drawn, Table, figure

_MODEL, _SIZE = "yolov3", 416
#: The paper's split of it.
_SPLIT = 33
#: Table 7 of all in the cloud: how, JPEG's quality, compression and latency over none.
_PAPER = (
    ("none", None, 1.0, 1.0),
    ("lossless (PNG)", None, 2.0, 0.56),
    ("JPEG", 80, 5.0, 0.23),
    ("JPEG", 60, 8.0, 0.15),
    ("JPEG", 40, 10.0, 0.13),
    ("JPEG", 20, 17.0, 0.09),
)
#: AUTO-SPLIT's, lossless.
_FEATURES = (15.0, 0.08)
#: What rounding of the ratio and of the latency may explain.
_ROUNDING = 0.015
#: A photograph that comes with Matplotlib.
_PHOTO = "grace_hopper.jpg"


@figure(PAPER, 7, "Pictures and features compressed", kind="table")
def make_compression(bench: Bench) -> Drawn:
    """YOLOv3 at 416 x 416 and 3 Mbit/s: one photograph, and what it makes at the paper's split."""
    cloud = compare(bench, _MODEL, Setting()).cloud
    bench.advance("a photograph, compressed")
    picture = _read_photo()
    ratios = [picture.size / _compress(picture, quality, how) for how, quality, _, _ in _PAPER]
    bench.advance(f"{_MODEL}: features at layer {_SPLIT}")
    features = _compress_features(find_subject(bench, _MODEL), picture)
    return draw_compression(ratios, features, cloud.cloud_s / cloud.latency_s)


def _read_photo() -> Array:
    """The photograph, (416, 416, 3) bytes."""
    from matplotlib import get_data_path  # Matplotlib takes long to load

    with Image.open(Path(get_data_path()) / "sample_data" / _PHOTO) as image:
        return np.asarray(image.convert("RGB").resize((_SIZE, _SIZE)))


def _compress(picture: Array, quality: int | None, how: str) -> int:
    """The bytes of a picture."""
    if how == "none":
        return picture.size
    buffer, kind = io.BytesIO(), "PNG" if quality is None else "JPEG"
    Image.fromarray(picture).save(buffer, kind, **({} if quality is None else {"quality": quality}))
    return len(buffer.getvalue())


def _compress_features(subject: Subject, picture: Array) -> Mapping[int, tuple[float, float]]:
    """By bits: the picture's bytes over those of all that crosses, packed, and deflated."""
    network = network_of(subject.graph, subject.order)
    made = (name for layer in subject.order for name in subject.graph.layer(layer).outputs)
    tensors = [*subject.graph.inputs, *made]
    names = [tensors[number] for number in network.crossing[subject.cut_after(_SPLIT)]]
    pixels = picture.transpose(2, 0, 1)[None].astype(np.float32)
    feeds = {subject.graph.inputs[0]: (pixels - pixels.mean()) / pixels.std()}
    values = WholeModel(subject.graph, set(names)).run(feeds)
    found = {}
    for bits in (8, 4, 2):
        packed = [pack_codes(_round(values[name], bits), bits).tobytes() for name in names]
        sizes = (sum(map(len, packed)), sum(len(zlib.compress(data, 9)) for data in packed))
        found[bits] = (picture.size / sizes[0], picture.size / sizes[1])
    return found


def _round(array: Array, bits: int) -> Array:
    """The codes of a tensor over its whole range."""
    low, high = float(array.min()), float(array.max())
    steps = (array.reshape(-1) - low) * ((2**bits - 1) / (high - low))
    return np.ascontiguousarray(np.rint(steps).astype(np.uint8))


def draw_compression(
    ratios: Sequence[float], features: Mapping[int, tuple[float, float]], computing: float
) -> Drawn:
    """Table 7.

    Args:
        ratios: Of the picture, by the paper's rows.
        features: By bits: the picture's bytes over the features', packed and deflated.
        computing: Part of the latency without compression that the cloud computes.
    """

    def latency(ratio: float) -> float:
        return computing + (1 - computing) / ratio

    rows: list[tuple[Cell, ...]] = [
        ("CLOUD-ONLY", how, quality, paper, ratio, paper_latency, latency(ratio))
        for (how, quality, paper, paper_latency), ratio in zip(_PAPER, ratios, strict=True)
    ]
    for bits, (packed, deflated) in features.items():
        rows.append(
            (f"after layer {_SPLIT}, {bits} bits", "packed", None, None, packed, None, None)
        )
        paper = _FEATURES[0] if bits == min(features) else None
        rows.append(
            (f"after layer {_SPLIT}, {bits} bits", "deflated", None, paper, deflated, None, None)
        )
    table = Table(
        "Table 7: YOLOv3, compression and latency over all in the cloud without",
        ("method", "how", "quality", "ratio, paper", "ours", "latency, paper", "ours"),
        tuple(rows),
        text_columns=2,
    )
    claims = [
        _claim_row(row, ratio, latency(ratio))
        for row, ratio in list(zip(_PAPER, ratios, strict=True))[1:]
    ]
    best = features[min(features)][1]
    claims.append(
        Claim(
            "features",
            f"AUTO-SPLIT's compress {_FEATURES[0]:g}x without loss, more than pictures",
            f"{best:.1f}x in {min(features)} bits where all that crosses is sent",
            best >= _FEATURES[0],
            "measurement",
        )
    )
    return Drawn((table,), (*claims, *_claim_formula()), (), _NOTES)


_NOTES = (
    "accuracy needs trained weights, so that the table's column of it is left out here",
    "the picture is one photograph that comes with Matplotlib; features are those of drawn weights,"
    " whose codes are nearer to chance than trained ones",
    "what compressing takes is not in the latency; on a Raspberry Pi 3 the paper measured 28 ms",
)


def _claim_row(row: tuple[str, int | None, float, float], ratio: float, latency: float) -> Claim:
    how, quality, paper, paper_latency = row
    subject = how if quality is None else f"{how}, quality {quality}"
    return Claim(
        subject,
        f"{paper:g}x smaller, latency {paper_latency} of all in the cloud",
        f"{ratio:.1f}x, {latency:.2f}",
        ratio >= paper and latency <= paper_latency + 0.005,
        "measurement",
    )


def _claim_formula() -> list[Claim]:
    """The paper's latencies follow from its ratios where 3 % of the time is not sending."""
    pairs = [(how, quality, ratio, latency) for how, quality, ratio, latency in _PAPER[1:]]
    pairs.append(("AUTO-SPLIT", None, *_FEATURES))
    off = [
        f"{ratio:g}x gives {0.03 + 0.97 / ratio:.3f}, not {latency}"
        for _, _, ratio, latency in pairs
        if abs(0.03 + 0.97 / ratio - latency) > _ROUNDING
    ]
    return [
        Claim(
            "its latencies",
            "follow from its ratios as 0.03 + 0.97 / ratio",
            "; ".join(off) or "all do, to 0.015",
            not off,
            "count",
        )
    ]
