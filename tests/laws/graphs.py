"""Random small networks: every kind of layer, in any order, with branches, skips and tails.

A network is drawn from a ``random.Random``, so that a law can shrink it and a seed can repeat it.
"""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import onnx
from onnx import TensorProto

from tests.laws.layers import HALF_STEPS, STEPS, add_mean, add_unary
from tests.laws.net import Net, Shape

#: No tensor grows larger than this, so that a case takes milliseconds.
_MOST_ELEMENTS = 6000


def _tail(net: Net, x: str) -> None:
    """End a branch: dense layers, or a mean and a matrix product."""
    shape = net.shapes[x]
    if net.chance(50):
        x = add_mean(net, x)
        shape = net.shapes[x]
    wide = prod(shape[1:])
    flat = net.add("Flatten", [x], (shape[0], wide), axis=1)
    some = net.rng.randint(2, 7)
    if net.chance(50):
        y = net.add("Gemm", [flat, net.weights(some, wide), net.weights(some, spread=0.3)],
                    (shape[0], some), transB=1)  # fmt: skip
        y = net.add("Relu", [y], (shape[0], some))
    else:
        w = net.constant(np.ascontiguousarray(net.constants[net.weights(some, wide)].T))
        y = net.add("MatMul", [flat, w], (shape[0], some))
        y = net.add("Add", [y, net.weights(some, spread=0.3)], (shape[0], some))
    y = net.add("Gemm", [y, net.weights(3, some)], (shape[0], 3), transB=1)
    if net.chance(50):
        net.add("Softmax", [y], (shape[0], 3), axis=-1)


def _first_shape(rng: Random, half: bool) -> Shape:
    rank = 4 if half else rng.choice([3, 4, 4, 4, 4, 5])
    batch = rng.choice([1, 1, 1, 2])
    largest = {3: 30, 4: 13, 5: 6}[rank]
    spatial = [rng.randint(3, largest) for _ in range(rank - 2)]
    return (batch, rng.choice([2, 3, 4, 6]), *spatial)


def draw_model(rng: Random, *, half: bool = False) -> onnx.ModelProto:
    """Return a random network.

    Args:
        rng: Where all choices come from.
        half: Whether its numbers are float16.
    """
    net = Net(rng, TensorProto.FLOAT16 if half else TensorProto.FLOAT)
    shape = _first_shape(rng, half)
    for number in range(rng.choice([1, 1, 1, 2])):
        net.add_input(f"in{number}", shape)
    steps = HALF_STEPS if half else STEPS
    current = net.inputs[0]
    for _ in range(rng.randint(2, 9)):
        if net.chance(25):
            current = rng.choice(list(net.shapes))
        made = rng.choice(steps)(net, current)
        if made is not None and prod(net.known[made]) <= _MOST_ELEMENTS:
            current = made
        net.shapes = {n: s for n, s in net.shapes.items() if prod(s) <= _MOST_ELEMENTS}
    if not net.nodes:
        add_unary(net, current)
    if net.chance(40) and not half:
        _tail(net, current)
    return net.finish()
