"""How far a quantised network's outputs are from the float network's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log10
from typing import Literal

import numpy as np
import numpy.typing as npt

from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.quantisation.quantizer import quantize
from partita.quantisation.samples import Feeds
from partita.regions import Array, LayerBits

#: Those that are 0 where nothing changes. ``output-mse``: the mean squared difference. ``noise``:
#: its power over that of the float network's output. ``kl``: the Kullback-Leibler divergence of
#: the quantised network's distribution from the float network's. All per sample.
OutputLoss = Literal["output-mse", "noise", "kl"]
#: ``cross-entropy``: that of the quantised network's distribution with the float network's.
OutputMeasure = Literal[OutputLoss, "cross-entropy"]
_Doubles = npt.NDArray[np.float64]
#: In place of a probability of 0.
_LEAST = 1e-12
#: How far a row's sum may be from 1 where it is a distribution already.
_SUM = 1e-3


class Reference:
    """What the float network answers to samples, and tables of bits measured against it.

    Attributes:
        graph: Not quantised.
        samples: What both answer to.
    """

    def __init__(self, graph: Graph, samples: Sequence[Feeds]) -> None:
        self.graph = graph
        self.samples = samples
        self._expected = self._run(graph)

    def _run(self, graph: Graph) -> list[dict[str, Array]]:
        model = WholeModel(graph)
        return [model.run(feeds) for feeds in self.samples]

    def answers(self, bits: Mapping[str, LayerBits]) -> list[dict[str, Array]]:
        """What the network quantised by a table answers to each sample."""
        return self._run(quantize(self.graph, bits))

    def measure(self, bits: Mapping[str, LayerBits], measure: OutputMeasure) -> float:
        """How far the outputs are from the float network's; the mean over samples and outputs."""
        compare = _COMPARE[measure]
        found = [
            compare(expected[name], answer[name])
            for expected, answer in zip(self._expected, self.answers(bits), strict=True)
            for name in self.graph.outputs
        ]
        return float(np.mean(found))

    def signal_to_noise_db(self, bits: Mapping[str, LayerBits]) -> float:
        """The outputs' power over that of what quantising changes, all samples and outputs."""
        return self.compare_signals(bits)[0]

    def compare_signals(self, bits: Mapping[str, LayerBits]) -> tuple[float, dict[str, float]]:
        """That ratio of all outputs together, and of each, by name."""
        powers = dict.fromkeys(self.graph.outputs, (0.0, 0.0))
        for expected, answer in zip(self._expected, self.answers(bits), strict=True):
            for name, (signal, noise) in powers.items():
                values = np.asarray(expected[name], np.float64)
                signal += float((values**2).sum())
                noise += float(((answer[name] - values) ** 2).sum())
                powers[name] = signal, noise
        signals, noises = zip(*powers.values(), strict=True)
        each = {name: _decibels(*pair) for name, pair in powers.items()}
        return _decibels(sum(signals), sum(noises)), each


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


def _output_mse(expected: Array, answer: Array) -> float:
    return float(np.mean((np.asarray(answer, np.float64) - expected) ** 2))


def _noise(expected: Array, answer: Array) -> float:
    values = np.asarray(expected, np.float64)
    noise, signal = float(((answer - values) ** 2).sum()), float((values**2).sum())
    return noise / (signal or noise) if noise else 0.0


def _kl(expected: Array, answer: Array) -> float:
    return _cross_entropy(expected, answer) - _cross_entropy(expected, expected)


def _cross_entropy(expected: Array, answer: Array) -> float:
    true, other = as_distribution(expected), as_distribution(answer)
    return float(-(true * np.log(np.maximum(other, _LEAST))).sum(axis=-1).mean())


_COMPARE = {
    "output-mse": _output_mse,
    "noise": _noise,
    "kl": _kl,
    "cross-entropy": _cross_entropy,
}


def as_distribution(array: Array) -> _Doubles:
    """An output as probabilities along its last axis: its softmax where it is none already."""
    values = np.atleast_1d(np.asarray(array, np.float64))
    sums = values.sum(axis=-1, keepdims=True)
    if values.min(initial=0.0) >= -_SUM and np.abs(sums - 1).max(initial=0.0) <= _SUM:
        return np.maximum(values, 0.0)
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
