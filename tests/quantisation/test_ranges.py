"""Ranges and error tables: what samples say, against the samples themselves."""

from __future__ import annotations

import numpy as np
import pytest

from partita.errors import InputError, PlanError
from partita.graph.whole import WholeModel
from partita.quantisation import (
    WIDTHS,
    CodeOptions,
    LayerBits,
    choose_bits,
    collect_ranges,
    measure_errors,
    quantize,
    tabulate_errors,
)
from partita.quantisation.outputs import Reference, as_distribution
from partita.quantisation.ranges import Histogram
from tests.quantisation.networks import draw_samples, small_graph


def test_a_histogram_keeps_ends_and_counts_as_it_grows() -> None:
    """However the range grows, ends are exact, and every number is in a bin that is near it."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=500) * scale for scale in (1, 3, 50)]
    histogram = Histogram()
    for part in parts:
        histogram.add(np.maximum(part, 0).astype(np.float32))
    values = np.maximum(np.concatenate(parts), 0).astype(np.float32)
    assert (histogram.low, histogram.high) == (values.min(), values.max())
    assert histogram.zeros == np.count_nonzero(values == 0)
    assert histogram.counts.sum() == np.count_nonzero(values)
    rows = histogram.rows()
    drawn = np.repeat(rows.values[0], rows.counts.astype(int))
    assert np.abs(np.sort(drawn) - np.sort(values)).max() <= histogram.width


def test_ranges_are_those_of_the_samples() -> None:
    """Without clipping a range holds the least and the largest number of all samples."""
    graph, samples = small_graph(), draw_samples()
    ranges = collect_ranges(graph, samples)
    assert ranges.samples == 4
    assert set(ranges.histograms) == {
        "x",
        "first",
        "second",
        "mean",
        "dense",
    }  # no pool, no flatten
    model = WholeModel(graph, ["r"])
    made = np.stack([model.run(feeds)["r"] for feeds in samples])
    assert ranges.limits("first", 8, "max") == (0.0, pytest.approx(made.max()))
    low, high = ranges.limits("first", 2, "mse")
    assert 0.0 <= low < high < made.max()


@pytest.mark.parametrize("clipping", ["max", "mse", "aciq"])
def test_errors_of_the_table_are_those_of_the_tensors(clipping: str) -> None:
    """Those of weights exactly, those of activations to 5 % of what the samples themselves give."""
    graph, samples = small_graph(), draw_samples()
    options = CodeOptions(clipping=clipping)  # type: ignore[arg-type]
    ranges = collect_ranges(graph, samples)
    table = tabulate_errors(graph, ranges, WIDTHS, options)
    assert set(table.weights) == {"first", "second", "dense"}
    made = [WholeModel(graph, ["r"]).run(feeds)["r"] for feeds in samples]
    for width in WIDTHS:
        bits = choose_bits(graph, ranges, {"first": width}, {"first": width}, options)
        quantised = quantize(graph, bits)
        off = quantised.constants["w1"] - graph.constants["w1"]
        assert table.weights["first"][width] == pytest.approx(float((off**2).mean()), rel=1e-5)
        packing = quantised.packings["r"]
        error = np.mean([(packing.round(array) - array) ** 2 for array in made])
        assert table.activations["first"][width] == pytest.approx(error, rel=0.05)
    falling = [table.activations["second"][width] for width in WIDTHS]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("measure", ["output-mse", "kl", "cross-entropy"])
def test_one_layer_alone_changes_outputs(measure: str) -> None:
    """What outputs lose by one layer is what the network with that layer quantised loses."""
    graph, samples = small_graph(), draw_samples(2)
    ranges = collect_ranges(graph, samples)
    table = measure_errors(Reference(graph, samples), ranges, measure, (2, 8))  # type: ignore[arg-type]
    assert set(table.activations) == set(ranges.histograms)
    bits = choose_bits(graph, ranges, {"second": 2}, None)
    pairs = [
        (WholeModel(graph).run(feeds)["y"], WholeModel(quantize(graph, bits)).run(feeds)["y"])
        for feeds in samples
    ]
    true = [(as_distribution(a), as_distribution(b)) for a, b in pairs]
    expected = {
        "output-mse": np.mean([(b - a) ** 2 for a, b in pairs]),
        "kl": np.mean([(a * np.log(a / b)).sum() for a, b in true]),
        "cross-entropy": np.mean([-(a * np.log(b)).sum() for a, b in true]),
    }[measure]
    assert table.weights["second"][2] == pytest.approx(expected, rel=1e-4)
    assert table.weights["second"][8] < table.weights["second"][2]


def test_one_width_for_all_leaves_answers_and_bytes() -> None:
    """Inputs have 8 bits as cameras do, and what the network answers is not rounded."""
    graph = small_graph()
    ranges = collect_ranges(graph, draw_samples())
    bits = choose_bits(graph, ranges, 4, 2)
    assert bits["x"].activation == 8
    assert bits["dense"] == LayerBits(weight=4, clipping="mse", means=ranges.means["dense"])
    assert bits["second"].activation == 2


def test_samples_that_cannot_be_used_are_refused() -> None:
    """None at all, those that overflow inside, and layers that they say nothing of."""
    graph = small_graph()
    with pytest.raises(InputError, match="There are no samples"):
        collect_ranges(graph, [])
    large = {"x": np.full((1, 3, 16, 16), 3e38, np.float32)}
    with pytest.raises(InputError, match=r"Sample 1 makes tensor '.*' of model 'small' NaN or inf"):
        collect_ranges(graph, [*draw_samples(1), large])
    with pytest.raises(InputError, match="Samples tell nothing of 'first'"):
        choose_bits(graph, None, None, {"first": 8})
    with pytest.raises(PlanError, match="Weights cannot have 7 bits, allowed: 2, 3, 4, 6, 8"):
        choose_bits(graph, None, 7, None)
