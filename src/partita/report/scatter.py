"""Accuracy against latency as a picture: one point per choice, drawn with Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.planners.result import TradeOff
from partita.report.palette import LIGHT
from partita.report.picture import encode, literal, start
from partita.report.scale import name_unit
from partita.report.trade_offs import describe_bits

#: In the order in which they are drawn: those of the cloud are few, and lie on top.
_SHAPES = {
    "edge": ("s", LIGHT["send"], "all on the edge"),
    "split": ("o", LIGHT["compute"], "split"),
    "cloud": ("^", LIGHT["receive"], "all in the cloud"),
}
_RED = "#c62828"
#: Rows of a bar chart that is as high.
_ROWS = 9
#: Where words may lie beside a point: points away from it, and which end of them is there.
_SIDES = (
    (10, 12, "left", "bottom"),
    (10, -12, "left", "top"),
    (-10, 12, "right", "bottom"),
    (-10, -12, "right", "top"),
    (0, 30, "center", "bottom"),
    (0, -30, "center", "top"),
)
#: Half of a point, in pixels.
_DOT = 8
#: From how many times the soonest on the latest leaves the others too close to tell apart.
_FAR = 10.0

Place = tuple[float, float]


def paint_trade_offs(
    trade_offs: Sequence[TradeOff],
    title: str,
    accuracy_drop: float,
    *,
    words: str = "accuracy",
    kind: str = "png",
) -> bytes:
    """Choices by latency and accuracy; by the sum of errors where none was judged.

    Args:
        words: What accuracy is.
        accuracy_drop: Most that may be lost of the accuracy: drawn as a line.
        kind: ``png`` or ``svg``.
    """
    axes = draw_trade_offs(trade_offs, title, accuracy_drop, words=words)
    return encode(axes.figure, kind)


def draw_trade_offs(
    trade_offs: Sequence[TradeOff], title: str, accuracy_drop: float, *, words: str = "accuracy"
) -> Any:
    """The axes of the picture, as :func:`paint_trade_offs` paints it."""
    judged = [each for each in trade_offs if each.accuracy is not None]
    figure, axes = start(_ROWS, title)
    shown = judged or trade_offs
    unit, length_s = name_unit(max(each.latency_s for each in shown))
    for place, is_exact in ((place, is_exact) for place in _SHAPES for is_exact in (False, True)):
        mine = [each for each in shown if each.kind == place and (not each.bits) == is_exact]
        if mine:
            marker, colour, name = _SHAPES[place]
            axes.plot(
                [each.latency_s / length_s for each in mine],
                [_height(each) for each in mine],
                marker,
                color=colour,
                markerfacecolor="white" if is_exact else colour,
                markersize=6,
                label=f"{name}, floats" if is_exact else name,
            )
    places = [(each.latency_s / length_s, _height(each)) for each in shown]
    if judged:
        _draw_limit(axes, judged[-1], accuracy_drop)
    elif any(each.error for each in shown):
        axes.set_yscale("symlog", linthresh=min(each.error for each in shown if each.error))
        axes.invert_yaxis()
    soonest_s, latest_s = (f(each.latency_s for each in shown) for f in (min, max))
    is_wide = 0 < _FAR * soonest_s < latest_s
    _label(axes, f"latency, {unit}", words if judged else "sum of errors", is_wide=is_wide)
    figure.draw_without_rendering()  # from here on it is known where the axes are
    for each, point in zip(shown, places, strict=True):
        if each.is_chosen:
            _mark(axes, each, point, places)
    axes.legend(loc="best", fontsize=8, frameon=False)
    return axes


def _height(each: TradeOff) -> float:
    return each.error if each.accuracy is None else each.accuracy.value


def _mark(axes: Any, each: TradeOff, place: Place, places: Sequence[Place]) -> None:
    """A ring around a choice, and what it is where few of the points lie under the words."""
    axes.plot(*place, "o", color=_RED, markerfacecolor="none", markersize=14, label="chosen")
    words = f"{each.edge_layers} layers on the edge"
    if each.bits:
        words += f": {describe_bits(each.bits)}"
    label = axes.annotate(
        literal(words), place, xytext=(0, 0), textcoords="offset points", fontsize=8
    )
    dots = axes.transData.transform(places)

    def hides(side: tuple[int, int, str, str]) -> tuple[float, int]:
        """How far words on a side of the point reach out of the axes, and how many they hide."""
        label.set(position=side[:2], ha=side[2], va=side[3])
        box = label.get_window_extent().padded(_DOT)
        out = max(axes.bbox.x0 - box.x0, box.x1 - axes.bbox.x1, 0.0)
        return max(out, axes.bbox.y0 - box.y0, box.y1 - axes.bbox.y1), box.count_contains(dots)

    hides(min(_SIDES, key=hides))


def _draw_limit(axes: Any, each: TradeOff, accuracy_drop: float) -> None:
    """The least accuracy that is enough, as a line."""
    accuracy = each.accuracy
    if accuracy is not None and accuracy.drop < 1:
        whole = accuracy.value / (1 - accuracy.drop)
        label = f"{100 * accuracy_drop:.3g} % lost"
        least = (1 - accuracy_drop) * whole
        axes.axhline(least, color=_RED, linestyle="--", linewidth=1, label=label)


def _label(axes: Any, across: str, up: str, *, is_wide: bool) -> None:
    axes.margins(x=0.12, y=0.12)
    if is_wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(across, fontsize=9)
    axes.set_ylabel(up, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
