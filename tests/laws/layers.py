"""Layers of random networks: each step adds one or a few nodes after a tensor."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tests.laws.net import Net, Shape

#: Adds nodes that read a tensor and returns what they make; None where the step does not fit.
Step = Callable[[Net, str], str | None]


def _window(net: Net, shape: Shape, *, most: int = 4, pooled: bool = False) -> dict[str, list[int]]:
    """Return attributes of a random window that fits the spatial axes of ``shape``."""
    rng, count = net.rng, len(shape) - 2
    kernel = [rng.randint(1, min(most, extent)) for extent in shape[2:]]
    dilation = [
        rng.randint(1, 2) if 2 * (k - 1) + 1 <= extent and not pooled else 1
        for k, extent in zip(kernel, shape[2:], strict=True)
    ]
    limits = [k - 1 if pooled else k for k in kernel]
    return {
        "kernel_shape": kernel,
        "dilations": dilation,
        "strides": [rng.choice([1, 1, 2, 3]) for _ in range(count)],
        "pads": [rng.randint(0, limit) for limit in (*limits, *limits)],
    }


def _windowed(shape: Shape, attrs: dict[str, list[int]], *, ceil: bool = False) -> Shape:
    """Return the spatial extents that a window leaves."""
    count = len(shape) - 2
    extents = []
    for axis in range(count):
        kernel, stride = attrs["kernel_shape"][axis], attrs["strides"][axis]
        begin, end = attrs["pads"][axis], attrs["pads"][axis + count]
        span = shape[2 + axis] + begin + end - attrs["dilations"][axis] * (kernel - 1) - 1
        made = (-(-span // stride) if ceil else span // stride) + 1
        if ceil and (made - 1) * stride >= shape[2 + axis] + begin:
            made -= 1
        extents.append(made)
    return tuple(extents)


def _is_mixed(shape: Shape, attrs: dict[str, list[int]]) -> bool:
    """Whether one axis rounds up and another has its last window dropped.

    ONNX Runtime infers a wrong extent there, and refuses the dense layers that follow.
    """
    count, made = len(shape) - 2, _windowed(shape, attrs, ceil=True)
    up = down = False
    for axis in range(count):
        pads = attrs["pads"][axis] + attrs["pads"][axis + count]
        free = shape[2 + axis] + pads - attrs["kernel_shape"][axis]
        floor, rest = divmod(free, attrs["strides"][axis])
        up |= made[axis] > floor + 1
        down |= rest > 0 and made[axis] == floor + 1
    return up and down


def _conv(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    groups = net.rng.choice([g for g in (1, 1, 2, 3, shape[1]) if shape[1] % g == 0])
    filters = groups * net.rng.randint(1, max(1, 6 // groups))
    attrs = _window(net, shape)
    spatial = _windowed(shape, attrs)
    if min(spatial) < 1:
        return None
    w = net.weights(filters, shape[1] // groups, *attrs["kernel_shape"])
    bias = [net.weights(filters, spread=0.3)] if net.chance(60) else []
    if net.chance(20):
        attrs = {k: v for k, v in attrs.items() if k not in ("pads", "dilations")}
        spatial = tuple(-(-e // s) for e, s in zip(shape[2:], attrs["strides"], strict=True))
        more: dict[str, Any] = {"auto_pad": net.rng.choice(["SAME_UPPER", "SAME_LOWER"])}
    else:
        more = {}
    return net.add(
        "Conv", [x, w, *bias], (shape[0], filters, *spatial), group=groups, **attrs, **more
    )


def _conv_transpose(net: Net, x: str) -> str | None:
    shape, count = net.shapes[x], len(net.shapes[x]) - 2
    groups = net.rng.choice([g for g in (1, 1, 2) if shape[1] % g == 0])
    each = net.rng.randint(1, 3)
    kernel = [net.rng.randint(1, 4) for _ in range(count)]
    stride = [net.rng.randint(1, 3) for _ in range(count)]
    pads = [net.rng.randint(0, (k - 1) // 2) for k in (*kernel, *kernel)]
    extra = [net.rng.randint(0, s - 1) for s in stride]
    spatial = tuple(
        (shape[2 + a] - 1) * stride[a] + kernel[a] - pads[a] - pads[a + count] + extra[a]
        for a in range(count)
    )
    if min(spatial) < 1:
        return None
    w = net.weights(shape[1], each, *kernel)
    attrs = {"kernel_shape": kernel, "strides": stride, "pads": pads, "output_padding": extra}
    made = (shape[0], each * groups, *spatial)
    return net.add("ConvTranspose", [x, w], made, group=groups, **attrs)


def _pool(net: Net, x: str) -> str | None:
    shape = net.shapes[x]
    op = net.rng.choice(["MaxPool", "AveragePool"])
    attrs = _window(net, shape, most=3, pooled=True)
    ceil = net.chance(40)
    spatial = _windowed(shape, attrs, ceil=ceil)
    if min(spatial) < 1 or (ceil and _is_mixed(shape, attrs)):
        return None
    attrs.pop("dilations")
    more = {"count_include_pad": int(net.chance(50))} if op == "AveragePool" else {}
    return net.add(op, [x], (*shape[:2], *spatial), ceil_mode=int(ceil), **attrs, **more)


def add_unary(net: Net, x: str) -> str:
    """Add an activation."""
    return net.add(net.rng.choice(["Relu", "Sigmoid", "Tanh", "HardSwish"]), [x], net.shapes[x])


def _swish(net: Net, x: str) -> str:
    gate = net.add("Sigmoid", [x], net.shapes[x])
    return net.add("Mul", [x, gate], net.shapes[x])


def _join(net: Net, x: str) -> str:
    other = net.rng.choice(net.like(x))
    return net.add(net.rng.choice(["Add", "Add", "Mul", "Max"]), [x, other], net.shapes[x])


def _scale(net: Net, x: str) -> str:
    shape = net.shapes[x]
    ones = [1] * (len(shape) - 2)
    factor = net.rng.choice([(1, shape[1], *ones), (1, *ones), (1, 1, *shape[2:])])
    return net.add("Mul", [x, net.weights(*factor, spread=1.0)], shape)


def _normalise(net: Net, x: str) -> str:
    shape = net.shapes[x]
    params = [net.weights(shape[1], spread=0.5) for _ in range(3)]
    variance = net.constant(np.full(shape[1], 0.7, net.kind))
    return net.add("BatchNormalization", [x, *params, variance], shape)


def _concat(net: Net, x: str) -> str:
    shape = net.shapes[x]
    near = [n for n, s in net.shapes.items() if s[:1] + s[2:] == shape[:1] + shape[2:]]
    names = [x, *(net.rng.choice(near) for _ in range(net.rng.randint(1, 2)))]
    channels = sum(net.shapes[name][1] for name in names)
    return net.add("Concat", names, (shape[0], channels, *shape[2:]), axis=1)


def _concat_rows(net: Net, x: str) -> str:
    shape = net.shapes[x]
    other = net.rng.choice(net.like(x))
    return net.add("Concat", [x, other], (*shape[:2], 2 * shape[2], *shape[3:]), axis=2)


def _split(net: Net, x: str) -> str | None:
    shape, axis = net.shapes[x], net.rng.choice([1, 1, 2])
    if shape[axis] < 2:
        return None
    first = net.rng.randint(1, shape[axis] - 1)
    sizes = (first, shape[axis] - first)
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    return net.rng.choice(net.add_many("Split", [x, net.ints(*sizes)], shapes, axis=axis))


def _slice(net: Net, x: str) -> str | None:
    shape, axis = net.shapes[x], net.rng.randint(1, len(net.shapes[x]) - 1)
    if shape[axis] < 3:
        return None
    start, step = net.rng.randint(0, shape[axis] - 2), net.rng.choice([1, 1, 2])
    made = len(range(start, shape[axis], step))
    consts = [net.ints(v) for v in (start, shape[axis], axis, step)]
    return net.add("Slice", [x, *consts], (*shape[:axis], made, *shape[axis + 1 :]))


def _pad(net: Net, x: str) -> str:
    shape, rank = net.shapes[x], len(net.shapes[x])
    mode = net.rng.choice(["constant", "reflect", "edge"])
    pads = [0, 0, *(net.rng.randint(0, min(2, extent - 1)) for extent in shape[2:])]
    pads += [0, 0, *(net.rng.randint(0, min(2, extent - 1)) for extent in shape[2:])]
    made = tuple(extent + pads[a] + pads[a + rank] for a, extent in enumerate(shape))
    return net.add("Pad", [x, net.ints(*pads)], made, mode=mode)


def _resize(net: Net, x: str) -> str:
    shape, rng = net.shapes[x], net.rng
    mode = rng.choice(["nearest", "linear"]) if len(shape) < 5 else "nearest"
    half = rng.choice(["half_pixel", "asymmetric", "align_corners"])
    if rng.choice([True, False]):
        made = (*shape[:2], *(2 * extent for extent in shape[2:]))
    else:
        made = (*shape[:2], *(rng.randint(2, 2 * extent + 1) for extent in shape[2:]))
    attrs = {"mode": mode, "coordinate_transformation_mode": half}
    if mode == "nearest":
        attrs["nearest_mode"] = rng.choice(["floor", "ceil", "round_prefer_floor"])
    return net.add("Resize", [x, "", "", net.ints(*made)], made, **attrs)


def add_mean(net: Net, x: str) -> str:
    """Add a mean or maximum over space, its axes kept for later broadcasting."""
    shape = net.shapes[x]
    made = (*shape[:2], *[1] * (len(shape) - 2))
    op = net.rng.choice(["GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax"])
    if op.startswith("Global"):
        return net.add(op, [x], made)
    return net.add(op, [x, net.ints(*range(2, len(shape)))], made, keepdims=1)


def _excite(net: Net, x: str) -> str:
    """Squeeze and excite: a gate per channel from the mean over space."""
    shape, ones = net.shapes[x], [1] * (len(net.shapes[x]) - 2)
    squeezed = add_mean(net, x)
    few = net.rng.randint(1, 4)
    inner = net.add("Conv", [squeezed, net.weights(few, shape[1], *ones)], (shape[0], few, *ones))
    inner = net.add("Relu", [inner], (shape[0], few, *ones))
    w, b = net.weights(shape[1], few, *ones), net.weights(shape[1], spread=0.3)
    gate = net.add("Conv", [inner, w, b], (*shape[:2], *ones))
    gate = net.add("Sigmoid", [gate], (*shape[:2], *ones))
    return net.add("Mul", [x, gate], shape)


def _softmax(net: Net, x: str) -> str:
    axis = net.rng.choice([1, -1])
    return net.add("Softmax", [x], net.shapes[x], axis=axis)


def _lrn(net: Net, x: str) -> str | None:
    return net.add("LRN", [x], net.shapes[x], size=3) if len(net.shapes[x]) == 4 else None


def _transpose(net: Net, x: str) -> str:
    """Swap two spatial axes, or the first two of three axes with each other."""
    shape = net.shapes[x]
    perm = [0, 2, 1] if len(shape) == 3 else [0, 1, 3, 2, *range(4, len(shape))]
    return net.add("Transpose", [x], tuple(shape[axis] for axis in perm), perm=perm)


def _shuffle(net: Net, x: str) -> str | None:
    """Channel shuffle: reshape, transpose, reshape."""
    shape = net.shapes[x]
    groups = [g for g in (2, 3) if shape[1] % g == 0]
    if not groups:
        return None
    g = net.rng.choice(groups)
    wide = (shape[0], g, shape[1] // g, *shape[2:])
    turned = (wide[0], wide[2], wide[1], *wide[3:])
    y = net.add("Reshape", [x, net.ints(*wide)], wide)
    y = net.add("Transpose", [y], turned, perm=[0, 2, 1, *range(3, len(wide))])
    made = net.add("Reshape", [y, net.ints(*shape)], shape)
    for name in [n for n, s in net.shapes.items() if len(s) > len(shape)]:
        del net.shapes[name]
    return made


def _blocks(net: Net, x: str) -> str | None:
    """Space to depth or back, where the extents allow."""
    shape = net.shapes[x]
    if len(shape) != 4:
        return None
    if shape[1] % 4 == 0 and net.chance(50):
        made = (shape[0], shape[1] // 4, 2 * shape[2], 2 * shape[3])
        mode = net.rng.choice(["DCR", "CRD"])
        return net.add("DepthToSpace", [x], made, blocksize=2, mode=mode)
    if shape[2] % 2 or shape[3] % 2:
        return None
    made = (shape[0], 4 * shape[1], shape[2] // 2, shape[3] // 2)
    return net.add("SpaceToDepth", [x], made, blocksize=2)


def _attend(net: Net, x: str) -> str | None:
    """Attention of every position to every other, each channel one number of its vector."""
    shape = net.shapes[x]
    positions = prod(shape[2:])
    if positions > 60:
        return None
    flat, turned = (shape[0], shape[1], positions), (shape[0], positions, shape[1])
    keys = net.add("Reshape", [x, net.ints(*flat)], flat)
    queries = net.add("Transpose", [keys], turned, perm=[0, 2, 1])
    scores = net.add("MatMul", [queries, keys], (shape[0], positions, positions))
    shares = net.add("Softmax", [scores], (shape[0], positions, positions), axis=-1)
    mixed = net.add("MatMul", [shares, queries], turned)
    back = net.add("Transpose", [mixed], flat, perm=[0, 2, 1])
    made = net.add("Reshape", [back, net.ints(*shape)], shape)
    for name in (keys, queries, scores, shares, mixed, back):
        del net.shapes[name]
    return made


def _project(net: Net, x: str) -> str:
    """Multiply the last axis with a matrix."""
    shape, some = net.shapes[x], net.rng.randint(2, 6)
    w = net.constant(np.ascontiguousarray(net.constants[net.weights(some, shape[-1])].T))
    return net.add("MatMul", [x, w], (*shape[:-1], some))


def _standardise(net: Net, x: str) -> str:
    """Normalise each sample over its positions, or over its last axis."""
    shape = net.shapes[x]
    op, extent = net.rng.choice(
        [("InstanceNormalization", shape[1]), ("LayerNormalization", shape[-1])]
    )
    params = [net.weights(extent, spread=0.5) for _ in range(2)]
    return net.add(op, [x, *params], shape, epsilon=0.1)


def _over_channels(net: Net, x: str) -> str:
    """Divide by a sum over channels, one number per position."""
    shape = net.shapes[x]
    op = net.rng.choice(["ReduceSumSquare", "ReduceL2", "ReduceMax"])
    top = net.add(op, [x, net.ints(1)], (shape[0], 1, *shape[2:]), keepdims=1)
    positive = net.add("Softplus", [top], net.shapes[top])
    return net.add("Div", [x, positive], shape)


def _repeat(net: Net, x: str) -> str:
    shape, axis = net.shapes[x], net.rng.randint(1, len(net.shapes[x]) - 1)
    times = [2 if place == axis else 1 for place in range(len(shape))]
    made = tuple(extent * n for extent, n in zip(shape, times, strict=True))
    return net.add("Tile", [x, net.ints(*times)], made)


def _pick(net: Net, x: str) -> str:
    shape, axis = net.shapes[x], net.rng.randint(1, len(net.shapes[x]) - 1)
    chosen = [net.rng.randint(0, shape[axis] - 1) for _ in range(net.rng.randint(1, 5))]
    made = (*shape[:axis], len(chosen), *shape[axis + 1 :])
    return net.add("Gather", [x, net.ints(*chosen)], made, axis=axis)


def _barrier(net: Net, x: str) -> str:
    """An operator without a region rule."""
    axis = net.constant(np.asarray(2, np.int64))
    total = net.add("CumSum", [x, axis], net.shapes[x])
    return net.add("Tanh", [total], net.shapes[x])


STEPS: tuple[Step, ...] = (
    _conv, _conv, _conv, _conv, _conv_transpose, _pool, _pool, add_unary, _swish, _join, _join,
    _scale, _normalise, _concat, _concat_rows, _split, _slice, _pad, _resize, _excite, _softmax,
    _lrn, _transpose, _shuffle, _blocks, _barrier, _attend, _project, _standardise, _over_channels,
    _repeat, _pick,
)  # fmt: skip
#: What ONNX Runtime computes in float16 on a CPU, and what does not amplify its rounding.
HALF_STEPS: tuple[Step, ...] = (
    _conv, _conv, _conv, _pool, add_unary, _swish, _join, _concat, _split, _pad, _excite, _slice,
)  # fmt: skip
