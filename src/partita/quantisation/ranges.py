"""What samples make of a network's tensors: ranges and histograms, of one run over the samples.

ONNX Runtime's calibrators keep what every layer answers to every sample, gigabytes for 64 images
through ResNet-50; these histograms grow with the range and never with the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import floor, log2

import numpy as np
import numpy.typing as npt

from partita.errors import InputError
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.quantisation.bias import channel_means, read_tensors, short_number
from partita.quantisation.bits import list_quantisable, made_floats
from partita.quantisation.clipping import Rows, made_coder
from partita.quantisation.samples import Feeds
from partita.regions import Array, Clipping

#: Told how many samples are done, of how many, and what comes next.
Advance = Callable[[int, int, str], None]
#: Ends of ranges of activations, by name and number of bits.
Limits = dict[str, dict[int, tuple[float, float]]]
#: How ends were found: by which clipping, norm, and whether sums are to be exact.
Found = tuple[Clipping, float, bool]
#: Means of what layers read, by layer and channel.
Means = dict[str, tuple[float, ...]]
#: Bins on each side of 0. Half of them hold the range after it has doubled: eight to a step of 8
#: bits.
_HALF = 4096
#: Bits of a picture's numbers, the largest of them, and what it may stand for.
_PIXEL_BITS, _MOST_BYTE, _TOPS = 8, 255, (1.0, 255.0)
#: By how much of a step a picture's numbers may be off bytes: single precision rounds by less.
_NEAR = 1e-3


class Histogram:
    """How often a tensor's numbers fall where.

    Attributes:
        low: The smallest number.
        high: The largest.
        zeros: How many are 0, which every range has a code for.
        counts: The others by size, in bins of equal width that lie around 0.
    """

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self.zeros = 0
        self.counts: npt.NDArray[np.int64] = np.zeros(2 * _HALF, np.int64)
        self._reach = 0.0

    @property
    def width(self) -> float:
        """The extent of a bin."""
        return self._reach / _HALF

    def add(self, array: Array) -> None:
        """Count an array's numbers, which are finite."""
        values = np.asarray(array, np.float32).reshape(-1)
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        peak = max(-low, high)
        if not self._reach:
            self._reach = peak
        while self._reach < peak:
            self._widen()
        values = values[values != 0]
        self.zeros += array.size - values.size
        if values.size:
            places = values * np.float32(_HALF / self._reach) + np.float32(_HALF)
            places = np.minimum(places, np.float32(2 * _HALF - 1)).astype(np.int32)
            self.counts += np.bincount(np.maximum(places, 0), minlength=2 * _HALF)

    def _widen(self) -> None:
        """Cover twice the range: two bins become one."""
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.zeros_like(self.counts)
        self.counts[_HALF // 2 : _HALF // 2 + _HALF] = pairs
        self._reach *= 2

    def rows(self) -> Rows:
        """One row of the middles of bins, the ends of the range and 0, with their counts."""
        used = np.flatnonzero(self.counts)
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        middles = np.clip((used + 0.5 - _HALF) * self.width, low, high)
        values = np.array([*middles, low, high, 0.0], np.float32)
        counts = np.array([*self.counts[used], 0, 0, self.zeros], np.float64)
        return Rows(values[None], counts)

    @property
    def spread(self) -> float:
        """The mean squared distance of the counted numbers from the middles of their bins."""
        counted = int(self.counts.sum())
        return self.width**2 / 12 * counted / max(1, counted + self.zeros)


@dataclass(frozen=True)
class Ranges:
    """What samples made of a network's tensors.

    Attributes:
        histograms: Of what layers make, and of the network's inputs, by name.
        samples: How many there were.
        pixels: Of inputs that are pictures of bytes in every sample, what the largest byte is: 1 or
            255. Their range is that of bytes, whatever the samples hold: so nothing is rounded.
        means: By layer, of each channel that it multiplies: see :mod:`partita.quantisation.bias`.
    """

    histograms: dict[str, Histogram]
    samples: int
    pixels: dict[str, float] = field(default_factory=dict)
    means: Means = field(default_factory=dict)
    _limits: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of_limits(
        cls,
        limits: Limits,
        samples: int,
        pixels: dict[str, float],
        means: Means,
        *,
        how: Found,
    ) -> Ranges:
        """Ranges of which only the ends are known, found in one way; errors they tell no more."""
        known: dict[tuple[object, ...], tuple[float, float]] = {
            (name, bits, *how): ends
            for name, by_bits in limits.items()
            for bits, ends in by_bits.items()
        }
        return cls({}, samples, pixels, means, known)

    def all_limits(self, widths: Collection[int], how: Found) -> Limits:
        """The ends of all ranges, by name and width."""
        clipping, norm, exact = how
        return {
            name: {
                bits: self.limits(name, bits, clipping, norm, exact_sums=exact) for bits in widths
            }
            for name in self.histograms
        }

    def limits(
        self,
        name: str,
        bits: int,
        clipping: Clipping,
        norm: float = 2.0,
        *,
        exact_sums: bool = False,
    ) -> tuple[float, float]:
        """The range that codes of a layer's activations, or of an input, should cover.

        Raises:
            InputError: Samples tell nothing of it.
        """
        if bits == _PIXEL_BITS and name in self.pixels:
            top = self.pixels[name]
            return 0.0, _MOST_BYTE * 2.0 ** floor(log2(top / _MOST_BYTE)) if exact_sums else top
        key = (name, bits, clipping, norm, exact_sums)
        if key not in self._limits:
            if name not in self.histograms:
                raise InputError(f"Samples tell nothing of '{name}'.", subject=name)
            rows = self.histograms[name].rows()
            coder = made_coder(bits, exact_sums=exact_sums)
            low, high = coder.limits(rows, clipping, norm)
            self._limits[key] = float(low[0]), float(high[0])
        return self._limits[key]

    def error(
        self,
        name: str,
        bits: int,
        clipping: Clipping,
        norm: float = 2.0,
        *,
        exact_sums: bool = False,
    ) -> float:
        """The mean squared error of activations whose codes cover that range."""
        ends = self.limits(name, bits, clipping, norm, exact_sums=exact_sums)
        low, high = (np.array([end]) for end in ends)
        histogram = self.histograms[name]
        error = made_coder(bits, exact_sums=exact_sums).error(histogram.rows(), low, high)
        return float(error[0]) + histogram.spread


def collect_ranges(
    graph: Graph, samples: Sequence[Feeds], advance: Advance | None = None
) -> Ranges:
    """Run the network over the samples once, and count what its tensors are.

    Args:
        graph: Not quantised.

    Raises:
        InputError: There are no samples, or a tensor is not finite for one of them.
    """
    if not samples:
        raise InputError("There are no samples: ranges are found by running some.")
    graph = graph.base or graph
    tensors = quantised_tensors(graph)
    read = read_tensors(graph)
    wanted = {name for names in tensors.values() for name in names}
    model = WholeModel(graph, {*wanted, *read.values()})
    histograms = {name: Histogram() for name in tensors}
    sums: dict[str, npt.NDArray[np.float64] | float] = dict.fromkeys(read, 0.0)
    pixels: dict[str, tuple[float, ...]]
    pixels = {name: _TOPS for name in tensors if name in graph.inputs}
    for number, feeds in enumerate(samples):
        if advance is not None:
            advance(number, len(samples), "ranges")
        values = {**feeds, **model.run(feeds)}
        for layer, names in tensors.items():
            for name in names:
                if not np.isfinite(values[name]).all():
                    raise InputError(
                        f"Sample {number} makes tensor '{name}' of model '{graph.name}' NaN or"
                        " infinite: no range covers it.",
                        subject=name,
                    )
                histograms[layer].add(values[name])
        for layer, name in read.items():
            sums[layer] = sums[layer] + channel_means(graph, graph.layer(layer), values[name])
        for name in pixels:
            pixels[name] = tuple(top for top in pixels[name] if _are_bytes(values[name], top))
    tops = {name: left[0] for name, left in pixels.items() if left}
    means = {
        layer: tuple(short_number(each) for each in np.asarray(total) / len(samples))
        for layer, total in sums.items()
    }
    return Ranges(histograms, len(samples), tops, means)


def _are_bytes(array: Array, top: float) -> bool:
    """Whether all numbers are those that bytes stand for, 0 to ``top``."""
    codes = np.asarray(array, np.float32) * np.float32(_MOST_BYTE / top)
    is_near = np.abs(codes - np.rint(codes)).max(initial=0) <= _NEAR
    return bool(is_near and codes.min(initial=0) >= -_NEAR and codes.max(initial=0) <= _MOST_BYTE)


def quantised_tensors(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The tensors that a table's entry for activations means, by layer or input."""
    inputs = set(graph.inputs)
    return {
        name: (name,) if name in inputs else made_floats(graph, graph.layer(name))
        for name in list_quantisable(graph)[1]
    }
