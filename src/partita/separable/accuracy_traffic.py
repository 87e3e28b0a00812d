"""The front of accuracy and traffic that a search found: as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.report.palette import LIGHT
from partita.report.picture import encode, literal, start
from partita.separable.policy import Policy
from partita.separable.residual import ResidualNetwork
from partita.separable.search import Candidate, front
from partita.separable.traffic import count_traffic

_ROWS = 9


def describe_traffic(architecture: ResidualNetwork, policy: Policy) -> dict[str, Any]:
    """What a policy sends for one image, by both accountings, for JSON."""
    traffic = count_traffic(architecture, policy)
    return {
        "maps": float(traffic.maps),
        "maps_share": traffic.share,
        "bytes": traffic.payload_bytes,
        "bytes_share": traffic.byte_share,
        "read_bytes": traffic.needed_bytes,
    }


def describe_candidates(
    architecture: ResidualNetwork, found: Sequence[Candidate]
) -> list[dict[str, Any]]:
    """Judged policies for JSON, the least traffic first."""
    best = front(found)
    return [
        {
            "policy": str(one.policy),
            "price": one.price,
            "validation_accuracy": one.accuracy,
            "is_on_front": one in best,
            **describe_traffic(architecture, one.policy),
        }
        for one in sorted(found, key=lambda one: (one.traffic, -one.accuracy))
    ]


def paint_front(
    found: Sequence[Candidate], networks: Sequence[tuple[str, float, float]], title: str
) -> bytes:
    """Accuracy against traffic as PNG.

    Args:
        found: Policies as the last round judged them, with the weights that all share.
        networks: Names, shares of the ring's bytes and accuracies on the test pictures, after
            training under one policy.
    """
    figure, axes = start(_ROWS, title)
    best = front(found)
    rest = [one for one in found if one not in best]
    axes.plot(
        [100 * one.traffic for one in rest],
        [100 * one.accuracy for one in rest],
        "o",
        color=LIGHT["deliver"],
        markersize=4,
        alpha=0.6,
        label="policies with shared weights, validation",
    )
    axes.step(
        [100 * one.traffic for one in best],
        [100 * one.accuracy for one in best],
        "o-",
        where="post",
        color=LIGHT["compute"],
        markersize=5,
        label="none of them is better and cheaper",
    )
    axes.plot(
        [100 * share for _, share, _ in networks],
        [100 * accuracy for _, _, accuracy in networks],
        "^",
        color=LIGHT["receive"],
        markersize=8,
        label="networks trained under one of them, test",
    )
    for name, share, accuracy in networks:
        place = (100 * share, 100 * accuracy)
        axes.annotate(literal(name), place, xytext=(7, 5), textcoords="offset points", fontsize=8)
    _finish(axes)
    return encode(figure)


def _finish(axes: Any) -> None:
    """Names of axes, grid and legend."""
    axes.set_xlabel("bytes that groups send, % of ring all-reduce", fontsize=9)
    axes.set_ylabel("right, %", fontsize=9)
    axes.set_xlim(left=-1)
    axes.margins(x=0.1, y=0.1)
    axes.tick_params(labelsize=8)
    axes.grid(color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="best", fontsize=8, frameon=False)
