"""Sliding windows: explicit pads and defaults for every convolution and pooling node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from partita.errors import ModelError
from partita.graph.layer import Window
from partita.graph.mutable_graph import MutableGraph
from partita.graph.node import Node

POOLS = frozenset(("AveragePool", "LpPool", "MaxPool"))
WINDOWED = POOLS | {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv"}
#: Place of the weight among the inputs.
_WEIGHT_PLACE = {"QLinearConv": 3}


def make_windows_explicit(draft: MutableGraph) -> bool:
    """Write kernel, strides, dilations, pads and group into each windowed node, in place.

    ``auto_pad`` and a transposed convolution's ``output_shape`` become pads.

    Returns:
        Whether any of those two was replaced.
    """
    replaced = False
    for node in draft.nodes:
        names = {attribute.name for attribute in node.attribute}
        if (
            node.op_type not in WINDOWED
            or node.domain
            or (names >= _EXPLICIT and names.isdisjoint(_IMPLIED))
        ):
            continue
        replaced |= _make_explicit(node, draft) and not names.isdisjoint(_IMPLIED)
    return replaced


_IMPLIED = frozenset(("auto_pad", "output_shape"))
_EXPLICIT = frozenset(("dilations", "group", "kernel_shape", "pads", "strides"))


def _make_explicit(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    before = draft.shape(node.input[0])
    kernel = _kernel(node, draft)
    if before is None or kernel is None:
        return False
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    rank = len(kernel)
    strides = list(attrs.get("strides", [1] * rank))
    dilations = list(attrs.get("dilations", [1] * rank))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _explicit_pads(node, attrs, _Extents(before[2:], spans, strides))
    if pads is None:
        return False
    fill: dict[str, Any] = {"kernel_shape": kernel, "pads": pads, "strides": strides}
    if _allows_dilation(node, draft):
        fill["dilations"] = dilations
    if node.op_type not in POOLS:
        fill["group"] = int(attrs.get("group", 1))
    dropped = {*_IMPLIED, *fill}
    kept = [a for a in node.attribute if a.name not in dropped]
    kept += [helper.make_attribute(name, value) for name, value in fill.items()]
    kept = [_copy(a) for a in sorted(kept, key=lambda a: a.name)]
    del node.attribute[:]
    node.attribute.extend(kept)
    return True


def refuse_channels(draft: MutableGraph) -> None:
    """Refuse convolutions whose channels do not fit their weights; an engine says so much later.

    Raises:
        ModelError: Names the node, its channels and its weight's shape.
    """
    for node in draft.nodes:
        if node.op_type not in ("Conv", "ConvTranspose") or node.domain:
            continue
        given, weight = draft.shape(node.input[0]), draft.shape(node.input[1])
        if given is None or weight is None or min(len(given), len(weight)) < 2:
            continue
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        filters = weight[0]
        channels = weight[1] * groups if node.op_type == "Conv" else filters
        if groups < 1 or filters % groups or given[1] != channels:
            raise ModelError(
                f"Node '{node.name or node.output[0]}' ({node.op_type}) of model '{draft.name}'"
                f" reads {given[1]} channels with a weight of {weight} in {groups} groups: these do"
                " not fit. Export the model again.",
                subject=node.name or node.output[0],
            )


def _copy(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    return copy


def _kernel(node: onnx.NodeProto, draft: MutableGraph) -> list[int] | None:
    for attribute in node.attribute:
        if attribute.name == "kernel_shape":
            return list(attribute.ints)
    place = _WEIGHT_PLACE.get(node.op_type, 1)
    shape = draft.shape(node.input[place]) if place < len(node.input) else None
    return list(shape[2:]) if shape is not None else None


def _allows_dilation(node: onnx.NodeProto, draft: MutableGraph) -> bool:
    since = {"AveragePool": 19, "LpPool": 18, "MaxPool": 10}
    return draft.opset >= since.get(node.op_type, 1)


class _Extents:
    """Extents per spatial axis: input, dilated kernel, stride."""

    def __init__(self, before: Sequence[int], spans: list[int], strides: list[int]) -> None:
        self.axes = list(zip(before, spans, strides, strict=True))

    def same_totals(self) -> list[int]:
        """The padding of each axis that gives one output per stride."""
        return [max(0, (-(-b // s) - 1) * s + k - b) for b, k, s in self.axes]

    def transposed_totals(self, extra: list[int], shape: Sequence[int] | None) -> list[int]:
        """The padding of each axis of a transposed convolution.

        Args:
            extra: Its output padding.
            shape: Its output's extents; one stride for each input element if not given.
        """
        wanted = [b * s for b, _, s in self.axes] if shape is None else list(shape)[-len(extra) :]
        rows = zip(self.axes, extra, wanted, strict=True)
        return [s * (b - 1) + e + k - w for (b, k, s), e, w in rows]


def _explicit_pads(
    node: onnx.NodeProto, attrs: Mapping[str, Any], extents: _Extents
) -> list[int] | None:
    mode = bytes(attrs.get("auto_pad", b"NOTSET")).decode()
    rank = len(extents.axes)
    if node.op_type == "ConvTranspose" and (mode.startswith("SAME") or "output_shape" in attrs):
        extra = list(attrs.get("output_padding", [0] * rank))
        totals = extents.transposed_totals(extra, attrs.get("output_shape"))
        # A total below zero means rows beyond the product: left to ONNX Runtime as it is written.
        return None if min(totals) < 0 else _share(totals, mode == "SAME_UPPER")
    if mode.startswith("SAME"):
        return _share(extents.same_totals(), mode == "SAME_UPPER")
    return [0] * (2 * rank) if mode == "VALID" else list(attrs.get("pads", [0] * (2 * rank)))


def _share(totals: list[int], more_at_end: bool) -> list[int]:
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return small + large if more_at_end else large + small


def read_window(node: Node) -> Window | None:
    """The window of a node that ``make_windows_explicit`` has seen, None for others."""
    if node.op not in WINDOWED or node.domain or "pads" not in node.attrs:
        return None
    kernel = tuple(node.attrs["kernel_shape"])
    half = len(kernel)
    pads = tuple(node.attrs["pads"])
    return Window(
        kernel=kernel,
        stride=tuple(node.attrs["strides"]),
        dilation=tuple(node.attrs.get("dilations", (1,) * half)),
        pads_begin=pads[:half],
        pads_end=pads[half:],
        groups=int(node.attrs.get("group", 1)),
    )
