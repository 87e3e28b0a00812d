"""How many windows a pooling node has, where its output is rounded up (``ceil_mode``).

ONNX Runtime drops a last window that would begin in the padding after the end; ONNX's own shape
rules do not before version 22. What runs is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper

from partita.graph.window import POOLS

ShapeOf = Callable[[str], Sequence[int] | None]


def count_windows(extent: int, pads: tuple[int, int], span: int, stride: int, *, ceil: bool) -> int:
    """The number of windows along one axis.

    Args:
        extent: Elements without padding.
        pads: Padding before and after.
        span: Elements from a window's first to its last, dilation included.
        stride: Elements from one window's start to the next.
        ceil: Whether a last window may reach beyond the padding.

    >>> count_windows(5, (0, 0), 2, 2, ceil=True), count_windows(5, (0, 0), 1, 3, ceil=True)
    (3, 2)
    """
    free = extent + sum(pads) - span
    if not ceil:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= extent + pads[0] else count


def round_down(nodes: Sequence[onnx.NodeProto], shape_of: ShapeOf) -> bool:
    """Drop ``ceil_mode``, in place, from pools that it gives no further window.

    Returns:
        Whether a node was changed.
    """
    changed = False
    for node, counts in _find_rounded(nodes, shape_of):
        if all(up == down for up, down, _ in counts):
            _set(node, "ceil_mode", 0)
            changed = True
    return changed


def pad_instead(nodes: Sequence[onnx.NodeProto], shape_of: ShapeOf) -> None:
    """Give pools the true extents under ONNX's shape rules: padding in place of ``ceil_mode``.

    For inference of shapes only; the nodes' answers change.
    """
    for node, counts in _find_rounded(nodes, shape_of):
        half = len(counts)
        pads = list(_attributes(node).get("pads", [0] * (2 * half)))
        for axis, (up, down, missing) in enumerate(counts):
            pads[axis + half] += missing if up > down else 0
        _set(node, "ceil_mode", 0)
        _set(node, "pads", pads)


def _find_rounded(
    nodes: Sequence[onnx.NodeProto], shape_of: ShapeOf
) -> list[tuple[onnx.NodeProto, list[tuple[int, int, int]]]]:
    """Pools with ``ceil_mode`` and, per axis: windows with it, windows without, elements missing.

    Missing are those that would make one more window whole.
    """
    pools = []
    for node in nodes:
        if node.op_type not in POOLS or node.domain:
            continue
        attrs, shape = _attributes(node), shape_of(node.input[0])
        if shape is None or not attrs.get("ceil_mode") or attrs.get("auto_pad", b"") not in _PLAIN:
            continue
        pools.append((node, _count_axes(attrs, shape[2:])))
    return pools


_PLAIN = (b"", b"NOTSET")


def _count_axes(attrs: dict[str, list[int]], extents: Sequence[int]) -> list[tuple[int, int, int]]:
    half, counts = len(extents), []
    for axis, extent in enumerate(extents):
        pads = attrs.get("pads", [0] * (2 * half))
        pair = (pads[axis], pads[axis + half])
        stride = attrs.get("strides", [1] * half)[axis]
        dilation = attrs.get("dilations", [1] * half)[axis]
        span = dilation * (attrs["kernel_shape"][axis] - 1) + 1
        up, down = (count_windows(extent, pair, span, stride, ceil=ceil) for ceil in (True, False))
        counts.append((up, down, -(extent + sum(pair) - span) % stride))
    return counts


def _attributes(node: onnx.NodeProto) -> dict[str, list[int]]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _set(node: onnx.NodeProto, name: str, value: int | list[int]) -> None:
    kept = [helper.make_attribute(name, value)]
    for attribute in node.attribute:
        if attribute.name != name:
            copy = onnx.AttributeProto()
            copy.CopyFrom(attribute)
            kept.append(copy)
    del node.attribute[:]
    node.attribute.extend(sorted(kept, key=lambda a: a.name))
