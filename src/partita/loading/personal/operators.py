"""Operators of ONNX in PyTorch: what can be trained through, and what eager PyTorch can run.

An entry computes one node's only output; gradients are PyTorch's own. An operator that is missing
here can be neither trained nor run by PyTorch, and the error names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Attributes = Mapping[str, Any]
#: Inputs in ONNX's order, an absent one None, and attributes.
Operator = Callable[[Sequence[Any], Attributes], Tensor]

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_MEANS = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
_MAXIMA = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}


def _get(args: Sequence[Any], place: int) -> Any:
    return args[place] if place < len(args) else None


def _pad(x: Tensor, attrs: Attributes, value: float = 0.0) -> tuple[Tensor, list[int]]:
    """The input and the padding that the operator itself is to add, the same on both sides.

    Where the node's pads differ from side to side they are written out, and none is left to add.
    """
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NotImplementedError(f"auto_pad {attrs['auto_pad']}")
    rank = x.dim() - 2
    pads = list(attrs.get("pads") or [0] * 2 * rank)
    if pads[:rank] == pads[rank:]:
        return x, pads[:rank]
    sides = [p for axis in reversed(range(rank)) for p in (pads[axis], pads[axis + rank])]
    return functional.pad(x, sides, value=value), [0] * rank


def _conv(args: Sequence[Any], attrs: Attributes) -> Tensor:
    (x, padding), weight, bias = _pad(args[0], attrs), args[1], _get(args, 2)
    rank = x.dim() - 2
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    conv: Callable[..., Tensor] = _CONVOLUTIONS[rank]
    return conv(x, weight, bias, strides, padding, dilations, attrs.get("group", 1))


def _gemm(args: Sequence[Any], attrs: Attributes) -> Tensor:
    alpha, beta, bias = attrs.get("alpha", 1.0), attrs.get("beta", 1.0), _get(args, 2)
    a = args[0].T if attrs.get("transA", 0) else args[0]
    if attrs.get("transB", 0) and alpha == beta == 1:
        return functional.linear(a, args[1], bias)
    product: Tensor = alpha * (a @ (args[1].T if attrs.get("transB", 0) else args[1]))
    return product if bias is None else product + beta * bias


def _max_pool(args: Sequence[Any], attrs: Attributes) -> Tensor:
    kernel = attrs["kernel_shape"]
    x, padding = _pad(args[0], attrs, float("-inf"))
    strides = attrs.get("strides") or [1] * len(kernel)
    dilations = attrs.get("dilations") or [1] * len(kernel)
    pool: Callable[..., Tensor] = _MAXIMA[len(kernel)]
    return pool(x, kernel, strides, padding, dilations, bool(attrs.get("ceil_mode", 0)))


def _average_pool(args: Sequence[Any], attrs: Attributes) -> Tensor:
    kernel, is_counted = attrs["kernel_shape"], bool(attrs.get("count_include_pad", 0))
    strides = attrs.get("strides") or [1] * len(kernel)
    if attrs.get("ceil_mode", 0) or any(d != 1 for d in attrs.get("dilations") or ()):
        raise NotImplementedError("ceil_mode or dilations")
    pool: Callable[..., Tensor] = _MEANS[len(kernel)]
    x, padding = _pad(args[0], attrs)
    means = pool(x, kernel, strides, padding, False, is_counted)
    if x is args[0] or is_counted:
        return means
    ones, _ = _pad(torch.ones_like(args[0][:1, :1]), attrs)
    return means / pool(ones, kernel, strides)


def _reshape(args: Sequence[Any], attrs: Attributes) -> Tensor:
    """Reshape per sample: a leading extent of 1 stands for the batch."""
    x, wanted = args[0], [int(extent) for extent in args[1]]
    if not attrs.get("allowzero", 0):
        wanted = [x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(wanted)]
    if wanted and wanted[0] == 1:
        wanted[0] = x.shape[0]
    return torch.reshape(x, wanted)


def _flatten(args: Sequence[Any], attrs: Attributes) -> Tensor:
    if attrs.get("axis", 1) != 1:
        raise NotImplementedError(f"axis {attrs['axis']}")
    return torch.flatten(args[0], 1)


def _clip(args: Sequence[Any], attrs: Attributes) -> Tensor:
    least, most = _get(args, 1), _get(args, 2)
    least = attrs.get("min") if least is None else float(least)
    most = attrs.get("max") if most is None else float(most)
    return args[0].clamp(least, most)  # type: ignore[no-any-return]


def _axes(args: Sequence[Any], attrs: Attributes) -> list[int] | None:
    given = _get(args, 1)
    axes = attrs.get("axes") if given is None else given
    return None if axes is None else [int(axis) for axis in axes]


def _reduce_mean(args: Sequence[Any], attrs: Attributes) -> Tensor:
    axes, keep = _axes(args, attrs), bool(attrs.get("keepdims", 1))
    if axes is None or any(axis % args[0].dim() == 0 for axis in axes):
        raise NotImplementedError("mean over samples")
    return args[0].mean(axes, keep)  # type: ignore[no-any-return]


def _squeeze(args: Sequence[Any], attrs: Attributes) -> Tensor:
    axes = _axes(args, attrs)
    if axes is None or any(axis % args[0].dim() == 0 for axis in axes):
        raise NotImplementedError("axes of samples")
    return args[0].squeeze(axes)  # type: ignore[no-any-return]


def _batch_norm(args: Sequence[Any], attrs: Attributes) -> Tensor:
    x, scale, bias, mean, variance = args[:5]
    return functional.batch_norm(x, mean, variance, scale, bias, eps=attrs.get("epsilon", 1e-5))


def _softmax(args: Sequence[Any], attrs: Attributes) -> Tensor:
    return torch.softmax(args[0], attrs.get("axis", -1))


def _hard_sigmoid(args: Sequence[Any], attrs: Attributes) -> Tensor:
    line: Tensor = attrs.get("alpha", 0.2) * args[0] + attrs.get("beta", 0.5)
    return line.clamp(0, 1)


def _global_mean(args: Sequence[Any], attrs: Attributes) -> Tensor:
    x: Tensor = args[0]
    return x.mean(list(range(2, x.dim())), keepdim=True)


def _prelu(args: Sequence[Any], attrs: Attributes) -> Tensor:
    x, slopes = args
    if slopes.numel() != 1 and (slopes.dim() != x.dim() - 1 or slopes.numel() != x.shape[1]):
        raise NotImplementedError("slopes other than one per channel")
    return functional.prelu(x, slopes.flatten())


def _space_to_depth(args: Sequence[Any], attrs: Attributes) -> Tensor:
    """Blocks of pixels become channels, in ONNX's order: within the block, then the channel."""
    x, block = args[0], attrs["blocksize"]
    samples, channels, rows, columns = x.shape
    blocks: Tensor = x.reshape(samples, channels, rows // block, block, columns // block, block)
    blocks = blocks.permute(0, 3, 5, 1, 2, 4)
    return blocks.reshape(samples, channels * block**2, rows // block, columns // block)


def _depth_to_space(args: Sequence[Any], attrs: Attributes) -> Tensor:
    """Channels become blocks of pixels; the inverse of :func:`_space_to_depth` in mode ``DCR``."""
    x, block = args[0], attrs["blocksize"]
    samples, channels, rows, columns = x.shape
    depth = channels // block**2
    if attrs.get("mode", "DCR") == "DCR":
        blocks: Tensor = x.reshape(samples, block, block, depth, rows, columns)
        blocks = blocks.permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(samples, depth, block, block, rows, columns)
        blocks = blocks.permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(samples, depth, rows * block, columns * block)


def _leaky(args: Sequence[Any], attrs: Attributes) -> Tensor:
    return functional.leaky_relu(args[0], attrs.get("alpha", 0.01))


def _transpose(args: Sequence[Any], attrs: Attributes) -> Tensor:
    if attrs.get("perm", [1])[0] != 0:
        raise NotImplementedError("axes of samples")
    return args[0].permute(attrs["perm"])  # type: ignore[no-any-return]


#: By ONNX name.
OPERATORS: dict[str, Operator] = {
    "Add": lambda args, attrs: args[0] + args[1],
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda args, attrs: torch.cat(list(args), attrs["axis"]),
    "Conv": _conv,
    "DepthToSpace": _depth_to_space,
    "Div": lambda args, attrs: args[0] / args[1],
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_mean,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda args, attrs: functional.hardswish(args[0]),
    "Identity": lambda args, attrs: args[0],
    "LeakyRelu": _leaky,
    "MatMul": lambda args, attrs: args[0] @ args[1],
    "MaxPool": _max_pool,
    "Mul": lambda args, attrs: args[0] * args[1],
    "PRelu": _prelu,
    "ReduceMean": _reduce_mean,
    "Relu": lambda args, attrs: torch.relu(args[0]),
    "Reshape": _reshape,
    "Sigmoid": lambda args, attrs: torch.sigmoid(args[0]),
    "Softmax": _softmax,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _squeeze,
    "Sub": lambda args, attrs: args[0] - args[1],
    "Tanh": lambda args, attrs: torch.tanh(args[0]),
    "Transpose": _transpose,
}
