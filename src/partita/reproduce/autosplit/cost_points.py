"""One cut with one width for all: seconds by what is sent, and bytes on the edge."""

from __future__ import annotations

import msgspec

from partita.planners.edgecloud.split_problem import Split
from partita.reproduce.autosplit.costs import NetworkCosts
from partita.reproduce.autosplit.setting import Setting
from partita.reproduce.autosplit.subject import Subject


class Point(msgspec.Struct, frozen=True):
    """A cut of a network.

    Attributes:
        one_s: Seconds where the last layer's output alone is sent; that is the answer at the end.
        all_s: Seconds where all that crosses is sent.
        sent_one: Elements of the last layer's output.
        table_bytes: Weights and the largest tensor on the edge.
    """

    one_s: float
    all_s: float
    sent_one: int
    table_bytes: float


def measure_point(subject: Subject, index: int, widths: tuple[int, int, int]) -> Point:
    """A cut after a layer of the paper's number.

    Args:
        widths: Bits of weights, of activations, and of what is sent.
    """
    held, made, sent = widths
    costs = NetworkCosts(subject.graph, subject.order, Setting())
    network, cut = costs.network, subject.cut_after(index)
    split = Split(cut, (held,) * cut, (made,) * cut)
    parts = costs.parts(split)
    busy_s = parts.edge_s + parts.cloud_s
    crossing = network.crossing[cut]
    last = crossing[-1] if crossing else len(network.sizes) - 1
    one = network.sizes[last]
    every = sum(network.sizes[tensor] for tensor in crossing) or one
    return Point(
        one_s=busy_s + one * sent * costs.s_per_bit,
        all_s=busy_s + every * sent * costs.s_per_bit,
        sent_one=one,
        table_bytes=costs.table_bytes(range(cut), split),
    )
