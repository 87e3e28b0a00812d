"""Why a network is cut where it is, in words, and what rules of thumb expected.

Source: AUTO-SPLIT, appendix A: networks of less than 50 MB as floats are likely best on the edge;
where many of the first layers make more than the input holds, the cloud is; deep and thin networks
and inputs of 416 pixels or more are likely split. What "many" and "thin" are the paper does not
say: here many is half of the layers, and of thin networks nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partita.graph import Graph
from partita.planners.edgecloud.network import Network, network_of
from partita.planners.edgecloud.roles import Roles
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.result import TradeOff
from partita.units import format_bytes, format_seconds

_SMALL_BYTES, _MANY, _LARGE_PIXELS = 50e6, 0.5, 416
#: Of what crosses a cut, in the sentence on where that is little.
_WIDTHS = (2, 8, 32)
_ALONE = {"cloud": "all in the cloud", "edge": "all on the edge"}


def explain_choice(
    evaluator: Evaluator, roles: Roles, trade_offs: Sequence[TradeOff]
) -> tuple[str, ...]:
    """Why a plan is sooner than its rivals, where cuts are small, and what was to expect.

    Args:
        trade_offs: What was chosen among them, and all in the cloud and all on the edge of the
            network as it is, where these are possible.
    """
    if roles.edge == roles.cloud:
        return ()
    network = network_of(evaluator.graph, evaluator.outline.order)
    return (
        _name_reasons(evaluator, roles, trade_offs),
        *_name_room(evaluator, roles.edge),
        _name_small_cuts(network),
        *_name_expectation(evaluator.graph, network),
    )


def _name_reasons(evaluator: Evaluator, roles: Roles, trade_offs: Sequence[TradeOff]) -> str:
    order, chosen = evaluator.outline.order, next(one for one in trade_offs if one.is_chosen)
    what = _ALONE.get(chosen.kind) or f"a split {_name_place(order, chosen.edge_layers)}"
    told = []
    for kind, alone in _ALONE.items():
        times = [one.latency_s for one in trade_offs if one.kind == kind and not one.bits]
        if kind == chosen.kind:
            continue
        told.append(
            f"{alone} it takes {format_seconds(min(times))}"
            if times
            else f"{alone} it is not possible"
        )
        if kind == "cloud" and times:
            told[-1] += f", {_name_sending(evaluator, roles)}"
    return f"{what} takes {format_seconds(chosen.latency_s)}; as it is {', '.join(told)}"


def _name_room(evaluator: Evaluator, edge: str) -> Iterator[str]:
    """Yield what a worker leaves of an edge's memory where the weights as they are do not fit, or
    what it lacks, whatever its widths.
    """
    has = evaluator.problem.limit_bytes(edge)
    least = evaluator.ranges.memory(0, 1, edge).overhead
    if has < least:
        yield (
            f"device '{edge}' can compute nothing: it has {format_bytes(has)} of memory, a worker"
            f" takes {format_bytes(least)} before any weights"
        )
    elif has - least < evaluator.graph.weight_bytes:
        yield (
            f"of the {format_bytes(has)} of memory of device '{edge}' a worker takes"
            f" {format_bytes(least)}: {format_bytes(has - least)} are left for weights and tensors"
        )


def _name_sending(evaluator: Evaluator, roles: Roles) -> str:
    size = sum(evaluator.problem.wire_bytes(name) for name in evaluator.graph.inputs)
    seconds = evaluator.cost.transfer_s(roles.edge, roles.cloud, size)
    return f"{format_seconds(seconds)} of them to send {format_bytes(size)} of input"


def _name_place(order: Sequence[str], cut: int) -> str:
    return f"after layer '{order[cut - 1]}' ({cut} of {len(order)})"


def _name_small_cuts(network: Network) -> str:
    """After which layer less crosses than the input holds, at some widths."""
    places = {width: _first_small_cut(network, width) for width in _WIDTHS}
    told = [
        f"nowhere at {width} bits"
        if cut is None
        else f"first {_name_place(network.layers, cut)} at {width} bits"
        for width, cut in places.items()
    ]
    return f"less crosses than an input of {network.input_bits} bits: {', '.join(told)}"


def _first_small_cut(network: Network, width: int) -> int | None:
    """The first cut, neither before all layers nor after them, that less crosses than the input."""
    count = len(network.layers)
    whole = network.sent_bits(0, ())
    small = (c for c in range(1, count) if network.sent_bits(c, (width,) * count) < whole)
    return next(small, None)


def _name_expectation(graph: Graph, network: Network) -> Iterator[str]:
    """What rules of thumb say; nothing where none applies."""
    expected = []
    if graph.weight_bytes < _SMALL_BYTES:
        expected.append(f"all on the edge (weights of {format_bytes(graph.weight_bytes)}, < 50 MB)")
    count = len(network.layers)
    cut = _first_small_cut(network, network.input_bits)
    large = count if cut is None else cut - 1
    if large >= _MANY * count:
        expected.append(f"all in the cloud (the first {large} layers make more than the input)")
    sides = [extent for name in graph.inputs for extent in graph.tensors[name].shape[2:]]
    if max(sides, default=0) >= _LARGE_PIXELS:
        expected.append(f"a split (input of {max(sides)} pixels, >= {_LARGE_PIXELS})")
    if expected:
        yield f"rules of thumb expect {' or '.join(expected)}"
