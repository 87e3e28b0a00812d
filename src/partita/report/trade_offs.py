"""What bits cost and gain: accuracy against latency, as a table, in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.exactness.accuracy import Accuracy
from partita.plan import Plan
from partita.planners.result import TradeOff
from partita.regions import LayerBits, read_format
from partita.report.tables import NOTHING, TableData, drop_empty
from partita.units import format_bytes, format_seconds


def tabulate_trade_offs(trade_offs: Sequence[TradeOff]) -> TableData:
    """One row per choice, in their order."""
    rows = tuple(
        (
            each.kind,
            *map(_span_with_floats, _widths(each.bits), each.leaves),
            "chosen" if each.is_chosen else "",
            str(each.edge_layers),
            format_bytes(each.edge_bytes),
            format_seconds(each.latency_s),
            f"{each.error:.2g}",
            *_show_accuracy(each.accuracy),
        )
        for each in trade_offs
    )
    columns = ("kind", "weights", "activations", "", "edge layers", "edge memory", "latency")
    more = ("error", "accuracy", "drop", "95 % interval", "samples")
    title = "Accuracy against latency, by kind of division and bits on the edge"
    return drop_empty(TableData(title, (*columns, *more), rows, text_columns=4))


def _show_accuracy(accuracy: Accuracy | None) -> tuple[str, str, str, str]:
    if accuracy is None:
        return NOTHING, NOTHING, NOTHING, NOTHING
    interval = NOTHING
    if accuracy.interval is not None:
        interval = " to ".join(f"{100 * end:.1f} %" for end in accuracy.interval)
    samples = str(accuracy.samples or NOTHING)
    return f"{accuracy.value:.4g}", f"{100 * accuracy.drop:.1f} %", interval, samples


def describe_bits(bits: Mapping[str, LayerBits]) -> str:
    """The widths of weights and activations in words; empty where nothing is quantised."""
    named = zip(("weights", "activations"), _widths(bits), strict=True)
    return ", ".join(f"{name} {_span(widths)}" for name, widths in named if widths)


def describe_inexact(plan: Plan) -> str:
    """What makes a plan's answers others than the network's: bits, lossy transfers; else empty.

    On which kernels bits are computed with is told, too.
    """
    formats = dict.fromkeys(
        wire.partition("@")[0] for wire in plan.wires.values() if not read_format(wire).is_exact
    )
    sent = f"sends {', '.join(formats)}" if formats else ""
    bits = describe_bits(plan.bits)
    kernels = "on integer kernels" if bits and plan.integer_kernels else ""
    return "; ".join(filter(None, (bits, kernels, sent)))


def _widths(bits: Mapping[str, LayerBits]) -> tuple[set[int], set[int]]:
    weights = {each.weight for each in bits.values() if each.weight is not None}
    return weights, {each.activation for each in bits.values() if each.activation is not None}


def _span(widths: set[int]) -> str:
    """The least and the largest; empty for none."""
    return "–".join(str(end) for end in dict.fromkeys((min(widths), max(widths)))) if widths else ""


def _span_with_floats(widths: set[int], leaves: bool) -> str:
    """The same where some may be left as they are."""
    if not widths or not leaves:
        return _span(widths) or "float"
    return f"{min(widths)}–float"


def say_accuracy(accuracy: Accuracy) -> str:
    """An accuracy in words, beside that of the network as it is."""
    if accuracy.interval == (0.0, 0.0):
        return f"{accuracy.value:.4g}, as the network as it is"
    words = f"{100 * abs(accuracy.drop):.1f} % {'less' if accuracy.drop >= 0 else 'more'}"
    interval = ""
    if accuracy.interval is not None:
        low, high = (100 * end for end in accuracy.interval)
        interval = f" (95 %: {low:.1f} % to {high:.1f} % less)"
    return f"{accuracy.value:.4g}, {words} than the network as it is{interval}"


def describe_accuracy(accuracy: Accuracy | None) -> dict[str, Any] | None:
    """An accuracy as JSON."""
    if accuracy is None:
        return None
    low, high = accuracy.interval or (None, None)
    return {
        "value": accuracy.value,
        "drop": accuracy.drop,
        "low": low,
        "high": high,
        "samples": accuracy.samples,
    }


def describe_trade_offs(trade_offs: Sequence[TradeOff]) -> list[dict[str, Any]]:
    """Choices as JSON, in their order."""
    return [
        {
            "kind": each.kind,
            "latency_s": each.latency_s,
            "error": each.error,
            "edge_layers": each.edge_layers,
            "edge_bytes": each.edge_bytes,
            "bits": describe_bits(each.bits),
            "accuracy": describe_accuracy(each.accuracy),
            "is_chosen": each.is_chosen,
        }
        for each in trade_offs
    ]
