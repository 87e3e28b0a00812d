"""Layers of models on one small device: priced as alone on it, sentences held against them."""

from __future__ import annotations

import pytest

from partita.cluster import find_entry
from partita.graph import load_graph
from partita.reproduce.collaborative.layers import Sped
from partita.reproduce.collaborative.layerwise import (
    C3D_SECOND,
    LayerCost,
    claim_minutes,
    claim_second,
    claim_short,
    divide_second,
    note_second,
    price_layers,
)
from partita.reproduce.collaborative.setting import KINDS, dense_graph
from partita.zoo import build_model

_KERAS = KINDS[1]


def _cost(seconds: float, *, fits: bool = True) -> LayerCost:
    return LayerCost(10**8, seconds, fits)


@pytest.mark.slow
def test_separable_convolutions_are_one_layer_and_light_layers_none() -> None:
    """Xception has 34 of them; both steps count, and pools and sums do not."""
    costs = price_layers(load_graph(build_model("xception", size=71)))
    names = [name for kind, name in costs if kind == _KERAS]
    plain = [name for name in names if "conv" in name or name == "classifier"]
    assert (len(names), len(plain)) == (41, 7)
    assert all(one.seconds > 0 and one.fits for one in costs.values())


@pytest.mark.slow
def test_a_layer_that_does_not_fit_pays_for_the_rest() -> None:
    """A dense layer of 128 MB, alone on the paper's Pi, brings in what is beyond its memory."""
    costs = price_layers(dense_graph(4096, 7800))
    entry = find_entry(_KERAS)
    ours, papers = costs[KINDS[0], "layer"], costs[_KERAS, "layer"]
    over_s = (papers.memory_bytes - entry.memory_bytes) / (entry.swap_bytes_per_s or 1.0)
    assert (ours.fits, papers.fits) == (True, False)
    assert 1.0 < over_s < papers.seconds < over_s + 0.2


def test_sentences_about_layers_need_their_numbers() -> None:
    """Minutes need a minute, and that layer alone; low latency needs it of all."""
    held, slow = _cost(0.1), _cost(80.0, fits=False)
    assert claim_minutes(_KERAS, "m", {(_KERAS, "conv"): held, (_KERAS, "fc6"): slow}).holds
    assert not claim_minutes(_KERAS, "m", {(_KERAS, "conv"): slow, (_KERAS, "fc6"): slow}).holds
    quick = _cost(30.0, fits=False)
    assert not claim_minutes(_KERAS, "m", {(_KERAS, "conv"): held, (_KERAS, "fc6"): quick}).holds
    assert claim_short(_KERAS, "m", {(_KERAS, "conv"): held}).holds
    assert not claim_short(_KERAS, "m", {(_KERAS, "conv"): held, (_KERAS, "b"): _cost(0.21)}).holds


def test_ports_decide_what_three_workers_gain() -> None:
    """With a cable per pair a 3-D convolution gains more than through ports, in every way."""
    second = divide_second((2, 12, 12), 6, 6, 3)
    for kind in KINDS:
        shared, apart = second[kind, True], second[kind, False]
        assert shared.alone_s == pytest.approx(apart.alone_s)
        assert all(shared.speedups[way] < apart.speedups[way] for way in shared.speedups)


def test_the_papers_gain_is_held_against_ports() -> None:
    """2.6x must come through ports; how slow a device that takes is worked out.

    C3D's maps are 16 x 56 x 56 x (64 + 128) numbers, 3.28 s at 94.1 Mbit/s (F-HA-13).
    """
    second = {
        (_KERAS, ports): Sped(6.0, {"spatial": gain}) for ports, gain in ((True, 1.7), (False, 2.8))
    }
    assert not claim_second(_KERAS, second).holds
    assert claim_second(_KERAS, {**second, (_KERAS, True): Sped(40.0, {"spatial": 2.6})}).holds
    assert "for 3.28 s however" in note_second(*C3D_SECOND)
    work_s, moved_s = 39.3, 3.28
    assert (work_s + moved_s) / (work_s / 3 + moved_s) == pytest.approx(2.6, rel=1e-3)
    assert note_second(*C3D_SECOND).endswith("computes 39.3 s for it")
