"""Random networks of odd shapes: rows of constants, ranks from 1 to 5, single columns, scalars."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import numpy as np
import onnx
from onnx import TensorProto

from tests.laws.net import Net, Shape

#: No tensor grows larger than this, so that a case takes milliseconds.
_MOST_ELEMENTS = 2000


def _add_constant(net: Net, x: str) -> str | None:
    """Put rows of a constant before, after, or on both sides of a tensor."""
    shape = net.shapes[x]
    if not shape:
        return None
    axis = net.rng.randrange(len(shape))
    extents = [net.rng.randint(1, 4) for _ in range(net.rng.randint(1, 2))]
    sides = [net.weights(*shape[:axis], n, *shape[axis + 1 :], spread=1.0) for n in extents]
    parts = net.rng.choice(([*sides, x], [x, *sides], [sides[0], x, *sides[1:]]))
    made = shape[axis] + sum(extents)
    return net.add("Concat", parts, (*shape[:axis], made, *shape[axis + 1 :]), axis=axis)


def _add_empty(net: Net, x: str) -> str | None:
    """Join a tensor with none of its own positions."""
    shape = net.shapes[x]
    if not shape:
        return None
    axis = net.rng.randrange(len(shape))
    ends = [net.ints(value) for value in (0, 0, axis)]
    none = net.add("Slice", [x, *ends], (*shape[:axis], 0, *shape[axis + 1 :]))
    del net.shapes[none]
    return net.add("Concat", [x, none], shape, axis=axis)


def _add_window(net: Net, x: str) -> str | None:
    """Convolve, where there are positions."""
    shape = net.shapes[x]
    if not 3 <= len(shape) <= 5:
        return None
    kernel = [net.rng.randint(1, min(3, extent)) for extent in shape[2:]]
    stride = [net.rng.randint(1, 2) for _ in kernel]
    out = [(n - k) // s + 1 for n, k, s in zip(shape[2:], kernel, stride, strict=True)]
    channels = net.rng.randint(1, 4)
    weights = net.weights(channels, shape[1], *kernel)
    return net.add("Conv", [x, weights], (shape[0], channels, *out), strides=stride)


def _add_product(net: Net, x: str) -> str | None:
    """Multiply by a matrix, or by the tensor's own transpose as attention does."""
    shape = net.shapes[x]
    if len(shape) < 2:
        return None
    if net.chance(50):
        made = net.rng.randint(1, 5)
        return net.add("MatMul", [x, net.weights(shape[-1], made)], (*shape[:-1], made))
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned = net.add("Transpose", [x], tuple(shape[axis] for axis in order), perm=order)
    return net.add("MatMul", [x, turned], (*shape[:-1], shape[-2]))


def _add_transpose(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    if not shape:
        return None
    order = net.rng.sample(range(len(shape)), len(shape))
    return net.add("Transpose", [x], tuple(shape[axis] for axis in order), perm=order)


def _add_reshape(net: Net, x: str) -> str:
    """Join all axes, join two neighbours, or add one of extent 1."""
    shape = net.shapes[x]
    made: Shape = (prod(shape),)
    if len(shape) > 1 and net.chance(60):
        at = net.rng.randrange(len(shape) - 1)
        made = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    elif len(shape) < 5 and net.chance(60):
        at = net.rng.randint(0, len(shape))
        made = (*shape[:at], 1, *shape[at:])
    return net.add("Reshape", [x, net.ints(*made)], made)


def _add_mean(net: Net, x: str) -> str:
    """Take the mean over one axis or over all, which leaves a scalar."""
    shape = net.shapes[x]
    if not shape or net.chance(15):
        return net.add("ReduceMean", [x], (), keepdims=0)
    axis = net.rng.randrange(len(shape))
    if net.chance(50):
        made = (*shape[:axis], 1, *shape[axis + 1 :])
        return net.add("ReduceMean", [x, net.ints(axis)], made)
    made = (*shape[:axis], *shape[axis + 1 :])
    return net.add("ReduceMean", [x, net.ints(axis)], made, keepdims=0)


def _add_pointwise(net: Net, x: str) -> str:
    shape = net.shapes[x]
    other = net.rng.choice(net.like(x))
    if shape and net.chance(20):
        return net.add("Softmax", [x], shape, axis=net.rng.randrange(len(shape)))
    if net.chance(50):
        return net.add("Add", [x, other], shape)
    return net.add("Tanh", [x], shape)


_STEPS: tuple[Callable[[Net, str], str | None], ...] = (
    *(_add_constant, _add_constant, _add_window, _add_window, _add_product),
    *(_add_transpose, _add_reshape, _add_mean, _add_pointwise, _add_empty),
)


def draw_odd_model(rng: Random) -> onnx.ModelProto:
    """Return a random network of one to three inputs, with some of its inner tensors as outputs."""
    net = Net(rng, TensorProto.FLOAT)
    for number in range(rng.choice((1, 1, 1, 2, 3))):
        rank = rng.randint(1, 5)
        extents = (1, 1, 2, 3, 5, 8) if rank > 3 else (1, 2, 5, 8, 12)
        shape = tuple(rng.choice(extents) for _ in range(rank))
        net.add_input(f"in{number}", (1, *shape[1:]) if rank > 2 else shape)
    for name in net.inputs:
        _add_pointwise(net, name)
    current = rng.choice(list(net.shapes))
    for _ in range(rng.randint(2, 9)):
        if net.chance(25):
            current = rng.choice(list(net.shapes))
        made = rng.choice(_STEPS)(net, current)
        if made is None:
            continue
        if prod(net.known[made]) <= _MOST_ELEMENTS:
            current = made
        else:
            del net.shapes[made]
    return net.finish()


def rows_of_constants() -> onnx.ModelProto:
    """Return a network whose first rows follow from a constant alone."""
    net = Net(Random(0), TensorProto.FLOAT)
    net.add_input("x", (1, 3, 8, 8))
    inner = net.add("Conv", ["x", net.weights(3, 3, 3, 3)], (1, 3, 8, 8), pads=[1] * 4)
    joined = net.add("Concat", [net.weights(1, 3, 4, 8), inner], (1, 3, 12, 8), axis=2)
    net.add("Conv", [joined, net.weights(2, 3, 1, 1)], (1, 2, 12, 8))
    return net.finish()


def vision_transformer(
    heads: int, width: int, patch: int, *, is_last: bool = False
) -> onnx.ModelProto:
    """Return a small vision transformer of two blocks on a picture of 16x16.

    Args:
        heads: Of attention.
        width: Features of a token, a multiple of ``heads``.
        patch: Rows and columns of the picture per token.
        is_last: Whether the class token comes after those of the picture.
    """
    net = Net(Random(0), TensorProto.FLOAT)
    net.add_input("x", (1, 3, 16, 16))
    side = 16 // patch
    count, shape = side**2 + 1, (1, side**2 + 1, width)
    weights = net.weights(width, 3, patch, patch)
    x = net.add("Conv", ["x", weights], (1, width, side, side), strides=[patch] * 2)
    x = net.add("Reshape", [x, net.ints(1, width, count - 1)], (1, width, count - 1))
    x = net.add("Transpose", [x], (1, count - 1, width), perm=[0, 2, 1])
    token = net.weights(1, 1, width, spread=1.0)
    x = net.add("Concat", [x, token] if is_last else [token, x], shape, axis=1)
    x = net.add("Add", [x, net.weights(*shape, spread=0.1)], shape)
    for _ in range(2):
        x = _add_feed_forward(net, _add_attention(net, x, heads))
    place = net.constant(np.asarray(count - 1 if is_last else 0, np.int64))
    x = net.add("Gather", [x, place], (1, width), axis=1)
    net.add("MatMul", [x, net.weights(width, 3)], (1, 3))
    return net.finish()


def _normalise(net: Net, x: str) -> str:
    shape = net.known[x]
    scale, shift = (net.constant(np.full(shape[-1:], n, np.float32)) for n in (1, 0))
    return net.add("LayerNormalization", [x, scale, shift], shape)


def _add_attention(net: Net, x: str, heads: int) -> str:
    _, count, width = shape = net.known[x]
    part, parts = width // heads, []
    source = _normalise(net, x)
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = net.add("MatMul", [source, net.weights(width, width)], shape)
        y = net.add("Reshape", [y, net.ints(1, count, heads, part)], (1, count, heads, part))
        made = tuple((1, count, heads, part)[axis] for axis in order)
        parts.append(net.add("Transpose", [y], made, perm=order))
    query, key, value = parts
    y = net.add("MatMul", [query, key], (1, heads, count, count))
    y = net.add("Softmax", [y], (1, heads, count, count), axis=-1)
    y = net.add("MatMul", [y, value], (1, heads, count, part))
    y = net.add("Transpose", [y], (1, count, heads, part), perm=[0, 2, 1, 3])
    y = net.add("Reshape", [y, net.ints(*shape)], shape)
    y = net.add("MatMul", [y, net.weights(width, width)], shape)
    return net.add("Add", [x, y], shape)


def _add_feed_forward(net: Net, x: str) -> str:
    _, count, width = shape = net.known[x]
    wide = (1, count, 4 * width)
    y = net.add("MatMul", [_normalise(net, x), net.weights(width, 4 * width)], wide)
    y = net.add("MatMul", [net.add("Relu", [y], wide), net.weights(4 * width, width)], shape)
    return net.add("Add", [x, y], shape)


def channels_last() -> onnx.ModelProto:
    """Return a small LeNet as Keras exports it: pictures and features with channels last."""
    net = Net(Random(0), TensorProto.FLOAT)
    net.add_input("x", (1, 12, 12, 1))
    x = net.add("Transpose", ["x"], (1, 1, 12, 12), perm=[0, 3, 1, 2])
    x = net.add("Conv", [x, net.weights(4, 1, 3, 3)], (1, 4, 12, 12), pads=[1] * 4)
    x = net.add("Tanh", [x], (1, 4, 12, 12))
    x = net.add("AveragePool", [x], (1, 4, 6, 6), kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Conv", [x, net.weights(6, 4, 3, 3)], (1, 6, 4, 4))
    x = net.add("Transpose", [x], (1, 4, 4, 6), perm=[0, 2, 3, 1])
    x = net.add("Reshape", [x, net.ints(1, 96)], (1, 96))
    net.add("MatMul", [x, net.weights(96, 10)], (1, 10))
    return net.finish()


def u_net() -> onnx.ModelProto:
    """Return a small U-Net with attention over the positions of its lowest map."""
    net = Net(Random(0), TensorProto.FLOAT)
    net.add_input("x", (1, 2, 16, 16))
    high = net.add("Conv", ["x", net.weights(4, 2, 3, 3)], (1, 4, 16, 16), pads=[1] * 4)
    low = net.add("MaxPool", [high], (1, 4, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    low = net.add("Conv", [low, net.weights(4, 4, 3, 3)], (1, 4, 8, 8), pads=[1] * 4)
    flat = net.add("Reshape", [low, net.ints(1, 4, 64)], (1, 4, 64))
    tokens = net.add("Transpose", [flat], (1, 64, 4), perm=[0, 2, 1])
    shares = net.add("Softmax", [net.add("MatMul", [tokens, flat], (1, 64, 64))], (1, 64, 64))
    mixed = net.add("MatMul", [shares, tokens], (1, 64, 4))
    mixed = net.add("Transpose", [mixed], (1, 4, 64), perm=[0, 2, 1])
    low = net.add("Reshape", [mixed, net.ints(1, 4, 8, 8)], (1, 4, 8, 8))
    weights = net.weights(4, 4, 2, 2)
    up = net.add("ConvTranspose", [low, weights], (1, 4, 16, 16), strides=[2, 2])
    joined = net.add("Concat", [high, up], (1, 8, 16, 16), axis=1)
    net.add("Conv", [joined, net.weights(2, 8, 3, 3)], (1, 2, 16, 16), pads=[1] * 4)
    return net.finish()
