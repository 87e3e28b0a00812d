"""Make layers out of groups of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from partita.graph.arrays import Arrays
from partita.graph.fuse import Wiring
from partita.graph.layer import Layer
from partita.graph.node import Node
from partita.graph.rules import rule_of
from partita.graph.window import read_window
from partita.graph.work import find_products
from partita.program import TensorSpec


def make_layers(
    wiring: Wiring,
    groups: Iterable[tuple[int, ...]],
    constants: Arrays,
    tensors: dict[str, TensorSpec],
    opset: int,
) -> tuple[Layer, ...]:
    """The layers that ``groups`` (places in ``wiring.nodes``) make, in their order."""
    used: set[str] = set()
    layers = []
    for group in groups:
        nodes = [wiring.nodes[place] for place in group]
        computed = {name for node in nodes for name in node.outputs if name}
        reads = dict.fromkeys(name for node in nodes for name in node.reads)
        inputs = tuple(n for n in reads if n not in computed and n not in constants)
        outputs = _outputs(wiring, group)
        moves = any(min(tensors[name].shape, default=0) < 0 for name in computed)
        is_fixed_value = not inputs
        if is_fixed_value:  # it follows a request, as every layer does: the first input stands in
            inputs = tuple(wiring.inputs)[:1]
        layers.append(
            Layer(
                name=_unique_name(nodes[0], used),
                kind=nodes[0].op,
                nodes=group,
                inputs=inputs,
                outputs=outputs,
                products=tuple(
                    products
                    for node in nodes
                    if _is_fixed(node, tensors)
                    and (products := find_products(node, wiring.shape_of)) is not None
                ),
                weight_bytes=sum(constants.spec(n).nbytes for n in reads if n in constants),
                output_bytes=sum(tensors[name].size_bytes for name in outputs),
                window=read_window(nodes[0]),
                barrier=moves or is_fixed_value or _has_no_rule(wiring, nodes[0], opset),
            )
        )
    return tuple(layers)


def _has_no_rule(wiring: Wiring, core: Node, opset: int) -> bool:
    shapes = [wiring.shape_of(name) for name in (*core.inputs, *core.outputs) if name]
    return rule_of(core, opset, shapes).barrier


def _is_fixed(node: Node, tensors: dict[str, TensorSpec]) -> bool:
    shapes = (tensors[name].shape for name in (*node.reads, *node.outputs) if name in tensors)
    return all(min(shape, default=0) >= 0 for shape in shapes)


def _outputs(wiring: Wiring, group: Sequence[int]) -> tuple[str, ...]:
    inside: Collection[int] = set(group)
    return tuple(
        name
        for place in group
        for name in wiring.nodes[place].outputs
        if name
        and (name in wiring.outputs or any(r not in inside for r in wiring.readers.get(name, ())))
    )


def _unique_name(core: Node, used: set[str]) -> str:
    first = core.name or next(name for name in core.outputs if name)
    name, count = first, 1
    while name in used:
        count += 1
        name = f"{first}#{count}"
    used.add(name)
    return name
