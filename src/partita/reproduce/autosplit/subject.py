"""A model of the paper's set: its layers by the paper's numbers, its error tables, its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import log10

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from partita.graph import Graph, load_graph
from partita.planners.edgecloud.quantised_split import FLOAT_BITS as UNROUNDED
from partita.planners.edgecloud.quantised_split import EdgeBits
from partita.planners.edgecloud.split_problem import Split
from partita.quantisation import (
    QuantisationData,
    Reference,
    collect_ranges,
    tabulate_errors,
)
from partita.quantisation.errors import coded_weights
from partita.quantisation.file import Findings
from partita.quantisation.samples import Feeds
from partita.quantisation.weights import WeightRanges
from partita.regions import Array
from partita.reproduce.autosplit.numbering import weighted_groups
from partita.reproduce.autosplit.setting import CODES, FLOAT_BITS, WIDTHS
from partita.reproduce.bench import Bench
from partita.reproduce.cache import code_digest

#: Inputs that ranges are found from, and those that quantised networks are judged by: apart.
_SAMPLES, _JUDGED = 2, 2


class Subject:
    """One model, its weights drawn from seed 0; what takes long is made when first asked for.

    Attributes:
        graph: Optimised: batch normalisation folded, activations and sums fused.
        groups: Names of layers; the place of a group is the paper's index.
        order: All names, in the order that is cut.
    """

    def __init__(self, bench: Bench, name: str) -> None:
        self._bench, self.name = bench, name
        self.graph = bench.graph(name)
        self.groups = weighted_groups(self.graph)
        self.order = [layer for group in self.groups for layer in group]

    @cached_property
    def unoptimised(self) -> Graph:
        """The network as it is written: a layer per node, batch normalisation apart."""
        return load_graph(self._bench.build(self.name), optimise=False)

    @cached_property
    def bits(self) -> EdgeBits:
        """Widths, what they lose, and tables of bits; the input counts as it is."""
        return EdgeBits(self.graph, self._find_data(), UNROUNDED, has_floats=True)

    def _find_data(self) -> QuantisationData:
        """Ranges and errors, kept or new: they take longer than all that is asked of them."""
        key = {"what": "autosplit tables", "model": self.name, "code": code_digest()}
        codes, weights = coded_weights(CODES), self.graph.remember(WeightRanges)
        kept = self._bench.cache.get(key, Findings)
        data = None if kept is None else QuantisationData.of_findings(kept, CODES)
        if kept is not None and data is not None:
            weights.know(kept.ends, codes)
            return data
        self._bench.advance(f"{self.name}: errors of all widths")
        ranges = collect_ranges(self.graph, draw_pictures(self.graph, _SAMPLES, first=0))
        errors = tabulate_errors(self.graph, ranges, WIDTHS, CODES)
        data = QuantisationData(errors, ranges, CODES)
        found = replace(data.findings(WIDTHS), ends=weights.list_ends(codes))
        self._bench.cache.put(key, found)
        return data

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.graph, draw_pictures(self.graph, _JUDGED, first=_SAMPLES))

    def index(self, cut: int) -> int:
        """The paper's number of the last layer with weights before a cut; -1 if there is none."""
        done, number = 0, -1
        for place, group in enumerate(self.groups):
            done += len(group)
            if done <= cut:
                number = place
        return number

    def cut_after(self, index: int) -> int:
        """The number of layers up to a group, which is a cut; the other way round."""
        return sum(len(group) for group in self.groups[: index + 1])

    def noise_of(self, split: Split) -> Noise:
        """What is left of the outputs where the layers before a cut have a split's widths."""
        key = {
            "what": "noise",
            "model": self.name,
            "split": [split.cut, split.weight_bits, split.activation_bits],
            "code": code_digest(),
        }
        known = self._bench.cache.get(key, Noise)
        if known is None:
            self._bench.advance(f"{self.name}: outputs with the first {split.cut} layers rounded")
            known = self._measure(split)
            self._bench.cache.put(key, known)
        return known

    @cached_property
    def _exact(self) -> NDArray[np.float64]:
        return _flat(self.graph, self._reference.answers({}))

    def _measure(self, split: Split) -> Noise:
        table, exact = self.bits.table(self.order, _unrounded(split)), self._exact
        found = _flat(self.graph, self._reference.answers(table))
        noise = float(((found - exact) ** 2).mean())
        apart = (exact - exact.mean(axis=0)) ** 2
        varying = float(apart.mean()) * len(exact) / (len(exact) - 1)
        return Noise(_ratio_db(float((exact**2).mean()), noise), _ratio_db(varying, noise))


class Noise(msgspec.Struct, frozen=True):
    """Decibels of a network's outputs over what rounding changes of them.

    Attributes:
        signal_db: Of all their power; None where nothing changes.
        varying_db: Of the power of what differs from picture to picture: the outputs of networks
            with drawn weights are nearly the same for all.
    """

    signal_db: float | None
    varying_db: float | None


def _flat(graph: Graph, answers: Sequence[Mapping[str, Array]]) -> NDArray[np.float64]:
    """All outputs in a row, a row per request."""
    rows = [np.concatenate([row[name].reshape(-1) for name in graph.outputs]) for row in answers]
    return np.array(rows, np.float64)


def _ratio_db(power: float, noise: float) -> float | None:
    return 10 * log10(power / noise) if noise and power else None


def _unrounded(split: Split) -> Split:
    """A split in which layers that are left alone have the width that quantising knows."""

    def known(widths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(UNROUNDED if width == FLOAT_BITS else width for width in widths)

    return Split(split.cut, known(split.weight_bits), known(split.activation_bits))


def draw_pictures(graph: Graph, count: int, *, first: int) -> list[Feeds]:
    """Noise whose amplitude falls as one over frequency, as that of photographs does.

    Their mean square is 1, for which the zoo's weights are drawn. Each has a seed of its own.
    """
    return [
        {spec.name: _draw_picture(spec.shape, seed) for spec in graph.input_specs}
        for seed in range(first, first + count)
    ]


def _draw_picture(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    height, width = shape[-2:]
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    frequency = np.maximum(np.hypot(down, across), 1 / max(height, width))
    white = np.fft.rfft2(np.random.default_rng(seed).standard_normal(shape))
    picture = np.fft.irfft2(white / frequency, (height, width))
    unit: NDArray[np.float32] = (picture / np.sqrt((picture**2).mean())).astype(np.float32)
    return unit
