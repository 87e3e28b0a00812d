"""What the learner sees of the split process (equation 7), scaled to the order of 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.planners.distredge.process import SplitProcess

Observation = npt.NDArray[np.float32]
#: Height, depth, filter and stride of a volume's last layer.
LAYER_FACTS = 4
#: Observations are clipped here; a device that is cut off takes forever. Not tuned: far above all
#: that is reached.
HIGHEST = 1e4


class Observer:
    """Makes observations and rewards.

    Args:
        time_unit_s: Seconds that count as 1; those of a whole network on the best single device, as
            a rule.
    """

    def __init__(self, process: SplitProcess, time_unit_s: float) -> None:
        self.time_unit_s = time_unit_s
        self.size = len(process.devices) + LAYER_FACTS
        facts = np.array([_facts(process, number) for number in range(len(process.volumes))])
        self._facts = (facts / np.maximum(facts.max(axis=0), 1.0)).astype(np.float32)

    def observe(self, number: int, latencies_s: Sequence[float]) -> Observation:
        """The state before volume ``number`` is divided; zeros for layer facts at the end.

        Args:
            number: Of the volume, from 0.
            latencies_s: Accumulated per device, seconds; predicted or measured.
        """
        scaled = np.minimum(np.asarray(latencies_s, dtype=np.float64) / self.time_unit_s, HIGHEST)
        ended = number >= len(self._facts)
        facts = np.zeros(LAYER_FACTS, np.float32) if ended else self._facts[number]
        return np.concatenate([scaled.astype(np.float32), facts])

    def reward(self, latency_s: float) -> float:
        """The reward of a whole plan (equation 8): 1 / T in the unit of time, 0 if none."""
        return self.time_unit_s / latency_s if latency_s > 0 else 0.0


def _facts(process: SplitProcess, number: int) -> tuple[float, ...]:
    """Height, depth, filter size and stride of the last layer of a volume."""
    outline, volume = process.evaluator.outline, process.volumes[number]
    layer = outline.graph.layer(outline.order[volume.stop - 1])
    shape = outline.graph.tensors[layer.outputs[0]].shape
    depth = shape[1] if len(shape) > 1 else 1
    window = layer.window
    kernel, stride = (window.kernel[0], window.stride[0]) if window is not None else (1, 1)
    return float(process.heights[number]), float(depth), float(kernel), float(stride)
