"""What samples say is kept with the ranges of weights, which are then searched for no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partita.quantisation import choose_bits, find_data, quantize
from partita.quantisation.samples import Sample
from partita.quantisation.weights import WeightRanges
from tests.quantisation.networks import draw_samples, small_graph


@pytest.mark.parametrize("bits", [2, 8])
def test_ranges_of_weights_are_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """A later process reads them, and quantises the same weights to the same codes."""
    samples = [Sample(feeds, Path(f"{number}")) for number, feeds in enumerate(draw_samples())]
    graphs = small_graph(), small_graph()
    first = find_data(graphs[0], samples, tmp_path)
    wanted = quantize(graphs[0], choose_bits(graphs[0], first.ranges, bits, 8, first.options))

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(WeightRanges, "_find", fail)
    again = find_data(graphs[1], samples, tmp_path)
    table = choose_bits(graphs[1], again.ranges, bits, 8, again.options)
    found = quantize(graphs[1], table)
    for name, array in wanted.constants.items():
        assert np.array_equal(found.constants[name], array), name
