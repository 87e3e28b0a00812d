"""What bits cost and gain, as table, words, JSON and picture."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from partita.exactness.accuracy import Accuracy
from partita.planners.result import TradeOff
from partita.regions import LayerBits
from partita.report.scatter import draw_trade_offs, paint_trade_offs
from partita.report.trade_offs import (
    describe_bits,
    describe_trade_offs,
    say_accuracy,
    tabulate_trade_offs,
)

NARROW = {"conv": LayerBits(weight=2, activation=4), "dense": LayerBits(weight=6, activation=4)}
CHOICES = [
    TradeOff("edge", 0.01, 0.5, 2, 100, NARROW, Accuracy(0.6, 0.25, (0.2, 0.3), 50)),
    TradeOff("split", 0.02, 0.1, 1, 200, NARROW, Accuracy(0.78, 0.025, (0.0, 0.05), 50), True),
    TradeOff("cloud", 0.05, 0.0, 0, 0, {}, Accuracy(0.8, 0.0, (0.0, 0.0), 50)),
]


def test_a_row_per_choice() -> None:
    """The widths of each side as a span, floats by name; the chosen one is marked."""
    table = tabulate_trade_offs(CHOICES)
    assert table.rows[0][:4] == ("edge", "2–6", "4", "")
    assert table.rows[1][3] == "chosen"
    assert table.rows[2][:3] == ("cloud", "float", "float")
    assert table.rows[0][-4:] == ("0.6", "25.0 %", "20.0 % to 30.0 %", "50")
    unjudged = [TradeOff("edge", 0.01, 0.5, 2, 100, NARROW)]
    (mixed,) = tabulate_trade_offs([replace(unjudged[0], leaves=(False, True))]).rows
    assert mixed[1:3] == ("2–6", "4–float")  # beside 4 bits some are left as they are
    assert "accuracy" not in tabulate_trade_offs(unjudged).columns


def test_bits_and_accuracy_in_words() -> None:
    """What is as it is says so; a gain is no loss."""
    assert describe_bits(NARROW) == "weights 2–6, activations 4"
    assert describe_bits({}) == ""
    assert say_accuracy(Accuracy(0.8, 0.0, (0.0, 0.0), 9)) == "0.8, as the network as it is"
    assert "1.0 % more than the network as it is" in say_accuracy(Accuracy(0.8, -0.01))
    assert "(95 %: -1.0 % to 3.0 % less)" in say_accuracy(Accuracy(0.8, 0.01, (-0.01, 0.03), 9))


def test_choices_as_json_have_their_accuracy() -> None:
    """What was not judged has none."""
    told = describe_trade_offs([*CHOICES, TradeOff("edge", 1.0, 0.0, 2, 9)])
    assert told[0]["accuracy"]["high"] == 0.3
    assert told[-1]["accuracy"] is None


@pytest.mark.parametrize("place", range(6))
def test_words_hide_no_point(place: int) -> None:
    """Whichever of close choices is chosen, its words lie beside the others, and in the axes."""
    losses = (0.0, 0.004, 0.01, 0.3, 0.01, 0.0)
    choices = [
        TradeOff("split", 0.01 + 0.002 * n, 0.1, n, 9, NARROW, Accuracy(1 - loss, loss), n == place)
        for n, loss in enumerate(losses)
    ]
    axes = draw_trade_offs(choices, "choices", 0.05)
    axes.figure.draw_without_rendering()
    (label,) = [text for text in axes.texts if "layers on the edge" in text.get_text()]
    box = label.get_window_extent()
    dots = [line.get_xydata() for line in axes.lines if line.get_marker() == "o"]
    assert not box.count_contains(axes.transData.transform(np.concatenate(dots)))
    assert axes.bbox.x0 <= box.x0
    assert box.x1 <= axes.bbox.x1
    legend = axes.get_legend().get_window_extent()
    assert not legend.count_contains(axes.transData.transform(np.concatenate(dots)))
    assert not legend.overlaps(box)


@pytest.mark.parametrize(("latest_s", "scale"), [(0.09, "linear"), (0.2, "log")])
def test_a_cloud_far_off_leaves_the_others_apart(latest_s: float, scale: str) -> None:
    """From ten times the soonest on, latencies are drawn by their logarithm."""
    choices = [*CHOICES[:1], TradeOff("cloud", latest_s, 0.0, 0, 0, accuracy=Accuracy(1.0, 0.0))]
    choices[0] = replace(choices[0], latency_s=0.01)
    axes = draw_trade_offs(choices, "choices", 0.05)
    assert axes.get_xscale() == scale


def test_a_point_of_the_cloud_lies_on_top() -> None:
    """Those of the edge are many, and as soon: the cloud's few would not be seen below them."""
    axes = draw_trade_offs(CHOICES, "choices", 0.05)
    drawn = [line.get_label() for line in axes.lines]
    names = ["all on the edge", "split", "all in the cloud, floats"]
    assert [name for name in drawn if name in names] == names


@pytest.mark.parametrize("is_judged", [True, False])
def test_the_picture_has_a_point_for_each_choice(*, is_judged: bool) -> None:
    """The more choices, the more is drawn; two drawings are equal."""
    choices = CHOICES if is_judged else [TradeOff("edge", 0.1, e, 2, 9) for e in (1.0, 0.1, 0.0)]
    data = paint_trade_offs(choices, "choices", 0.05)
    assert data == paint_trade_offs(choices, "choices", 0.05)
    all_of_them, one = (
        np.asarray(Image.open(io.BytesIO(paint_trade_offs(some, "choices", 0.05))).convert("L"))
        for some in (choices, choices[:1])
    )
    assert (all_of_them < 200).sum() > (one < 200).sum()
    assert paint_trade_offs(choices, "choices", 0.05, kind="svg").startswith(b"<?xml")
