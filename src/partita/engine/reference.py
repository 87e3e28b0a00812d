"""A fixed piece of work that says how fast this machine is at the moment.

The speed of a shared machine wanders by a tenth and more within minutes. What is timed beside the
reference, and divided by it, wanders much less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from partita.engine.base import CPU
from partita.engine.ort import OrtEngine

#: The size of the 3x3 convolutions in ResNet-50's first stage. Not tuned.
_CHANNELS, _EXTENT, _KERNEL = 64, 56, 3
#: The least of so many is taken: what disturbs only adds. Not tuned.
_RUNS = 10
_FLOAT, _INTS = 1, 7


class Reference:
    """A convolution of 116 million multiply-accumulates on one thread."""

    def __init__(self) -> None:
        self._runner = OrtEngine(1, (CPU,)).load(reference_model(), {})
        rng = np.random.default_rng(0)
        self._arrays = [rng.random(spec.shape, np.float32) for spec in self._runner.inputs]
        self.run()

    def run(self) -> None:
        """Run it once; the nearest cache then holds nothing else."""
        self._runner.run(self._arrays)

    def time_s(self, runs: int = _RUNS) -> float:
        """The least seconds of some runs: what else the machine does only adds to them."""
        times = []
        for _ in range(runs):
            start_s = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - start_s)
        return min(times)


def reference_model(channels: int = _CHANNELS, extent: int = _EXTENT) -> bytes:
    """A convolution as an ONNX model, written without the onnx package."""
    image = (1, channels, extent, extent)
    weights = (channels, channels, _KERNEL, _KERNEL)
    pads = b"".join(_number(8, _KERNEL // 2) for _ in range(4))
    attribute = _part(1, b"pads") + pads + _number(20, _INTS)
    return one_node_model("Conv", (image, weights), image, _part(5, attribute))


def one_node_model(
    kind: str, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], attributes: bytes = b""
) -> bytes:
    """An ONNX model of one operator over float tensors, written without the onnx package.

    Args:
        kind: The operator, of the default domain.
        inputs: Shapes of the inputs ``i0``, ``i1``, ...
        output: Shape of the output ``o0``.
        attributes: Of the node, encoded.
    """
    names = [b"i%d" % place for place in range(len(inputs))]
    node = b"".join(_part(1, name) for name in names) + _part(2, b"o0")
    node += _part(4, kind.encode()) + attributes
    graph = _part(1, node) + _part(2, b"reference")
    graph += b"".join(
        _part(11, _value(name, shape)) for name, shape in zip(names, inputs, strict=True)
    )
    graph += _part(12, _value(b"o0", output))
    return _number(1, 8) + _part(7, graph) + _part(8, _number(2, 17))


def _value(name: bytes, shape: tuple[int, ...]) -> bytes:
    dims = b"".join(_part(1, _number(1, extent)) for extent in shape)
    tensor = _number(1, _FLOAT) + _part(2, dims)
    return _part(1, name) + _part(2, _part(1, tensor))


def _part(field: int, payload: bytes) -> bytes:
    """A field of bytes in the protobuf encoding."""
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def _number(field: int, value: int) -> bytes:
    """A field with a number."""
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
