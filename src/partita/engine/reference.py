"""A fixed piece of work that says how fast this machine is at the moment.

The speed of a shared machine wanders by a tenth and more within minutes. What is timed beside the
reference, and divided by it, wanders much less.
"""

from __future__ import annotations

import time

import numpy as np

from partita.engine.base import CPU
from partita.engine.one_node import encode_number, encode_part, one_node_model
from partita.engine.ort import OrtEngine

#: The size of the 3x3 convolutions in ResNet-50's first stage. Not tuned.
_CHANNELS, _EXTENT, _KERNEL = 64, 56, 3
#: The least of so many is taken: what disturbs only adds. Not tuned.
_RUNS = 10
_INTS = 7


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
    pads = b"".join(encode_number(8, _KERNEL // 2) for _ in range(4))
    attribute = encode_part(1, b"pads") + pads + encode_number(20, _INTS)
    return one_node_model("Conv", (image, weights), image, encode_part(5, attribute))
