"""Group nodes: a core, and the pointwise nodes that can be computed with it at no other cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from partita.graph.node import Node
from partita.graph.pointwise import POINTWISE
from partita.graph.work import ShapeOf

#: Most nodes looked at to close a small diamond: ``x * sigmoid(x)`` has 2, GELU by ``Erf`` 5.
_LOOK_AHEAD = 8


@dataclass(frozen=True)
class Wiring:
    """Who reads and writes what.

    Attributes:
        nodes: In topological order.
        readers: Places of the nodes that read each tensor.
        constants: Element count of each constant.
        shape_of: Static shape of a tensor.
    """

    nodes: tuple[Node, ...]
    readers: dict[str, tuple[int, ...]]
    outputs: frozenset[str]
    inputs: tuple[str, ...]
    constants: dict[str, int]
    shape_of: ShapeOf

    @cached_property
    def casts(self) -> frozenset[str]:
        """What nodes that cast make."""
        return frozenset(node.outputs[0] for node in self.nodes if node.op == "Cast")


def group_nodes(
    wiring: Wiring, tail: frozenset[int], *, fuse: bool = True
) -> list[tuple[int, ...]]:
    """Groups of node places in topological order; the first of each is its core.

    A pointwise node joins the group before it if that leaves one tensor to be read by others, keeps
    its shape, and if its other operands are constants, inputs of the graph, or were needed to
    compute the core's own inputs: a residual is, a value computed beside or after is not.

    Args:
        tail: Places of nodes that form one last group whatever they are.
        fuse: Whether nodes join others at all.
    """
    before = _ancestors(wiring)
    taken = set(tail)
    groups = []
    for place, node in enumerate(wiring.nodes):
        if place in taken:
            continue
        group = [place]
        available = set(wiring.inputs)
        for name in node.reads:
            available |= before.get(name, frozenset()) | {name}
        while fuse and (step := _next_followers(wiring, group, available, taken)):
            group += step
        taken.update(group)
        groups.append(tuple(group))
    return [*groups, tuple(sorted(tail))] if tail else groups


def _ancestors(wiring: Wiring) -> dict[str, frozenset[str]]:
    """For each tensor all tensors that it is computed from."""
    ancestors: dict[str, frozenset[str]] = {}
    for node in wiring.nodes:
        reads = [name for name in node.reads if name not in wiring.constants]
        union = frozenset(reads).union(*(ancestors.get(name, frozenset()) for name in reads))
        ancestors.update((name, union) for name in node.outputs if name)
    return ancestors


def _next_followers(
    wiring: Wiring, group: Sequence[int], available: set[str], taken: set[int]
) -> list[int]:
    """The fewest followers after which one tensor leaves the group, or none."""
    live = _live(wiring, group)
    if len(live) != 1 or live[0] in wiring.outputs:
        return []
    start, added, computed = live[0], list[int](), {live[0]}
    while len(added) < _LOOK_AHEAD:
        near = {r for name in computed for r in wiring.readers.get(name, ())} - {*added, *taken}
        reach = computed | available
        place = next((p for p in sorted(near) if _fits(wiring, p, start, reach)), None)
        if place is None:
            return []
        added.append(place)
        computed.update(name for name in wiring.nodes[place].outputs if name)
        left = _live(wiring, (*group, *added))
        if len(left) == 1 and left[0] != start:
            return sorted(added)
    return []


def _live(wiring: Wiring, group: Sequence[int]) -> list[str]:
    """Tensors that the group makes and that somebody else reads."""
    inside = set(group)
    return [
        name
        for place in group
        for name in wiring.nodes[place].outputs
        if name and (name in wiring.outputs or not inside.issuperset(wiring.readers.get(name, ())))
    ]


def _fits(wiring: Wiring, place: int, start: str, known: set[str]) -> bool:
    node = wiring.nodes[place]
    if not is_pointwise(node, wiring.constants):
        return False
    if node.op == "Cast" and node.inputs[0] in wiring.casts:
        return False  # what is between the two may travel: it may be what there is least of
    if any(name not in known and name not in wiring.constants for name in node.reads):
        return False
    return wiring.shape_of(node.outputs[0]) == wiring.shape_of(start)


def is_pointwise(node: Node, constants: dict[str, int]) -> bool:
    """Whether each output element depends on input elements at the same place and on constants."""
    if node.domain or any(node.outputs[1:]):
        return False
    if node.op == "BatchNormalization":
        fixed = all(name in constants for name in node.inputs[1:])
        return fixed and not node.attrs.get("training_mode", 0)
    if node.op in ("QuantizeLinear", "DequantizeLinear"):
        return all(constants.get(name, 0) == 1 for name in node.inputs[1:] if name)
    if node.op == "Dropout":
        return False
    return node.op in POINTWISE
