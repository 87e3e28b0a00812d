"""Layers that bear no width: what outputs lose by them alone, and what stays as it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from partita.graph import Graph
from partita.quantisation import (
    WIDTHS,
    ErrorTable,
    QuantisationData,
    Ranges,
    Reference,
    Sample,
    choose_bits,
    collect_ranges,
    find_data,
    measure_errors,
    tabulate_errors,
)
from partita.quantisation.errors import scale_errors
from partita.quantisation.robust import robust_widths
from tests.quantisation.networks import draw_samples, fragile_graph


@cache
def _case() -> tuple[Graph, Ranges, Reference]:
    graph, samples = fragile_graph(), draw_samples()
    return graph, collect_ranges(graph, samples), Reference(graph, samples)


@pytest.mark.parametrize("measure", ["noise", "output-mse", "kl"])
def test_what_outputs_lose_is_what_was_measured(measure: str) -> None:
    """At the measured width exactly; one width on, within a factor of two of what is measured."""
    graph, ranges, reference = _case()
    own = tabulate_errors(graph, ranges)
    full = measure_errors(reference, ranges, measure)  # type: ignore[arg-type]
    at_8 = ErrorTable(
        *({n: {8: t[8]} for n, t in part.items()} for part in (full.weights, full.activations)),
        full.measure,
    )
    scaled = scale_errors(own, at_8)
    assert scaled.measure == measure
    assert scaled.activations["fragile"][8] == full.activations["fragile"][8]
    assert scaled.weights["second"][6] == pytest.approx(full.weights["second"][6], rel=1.0)
    for table in (*scaled.weights.values(), *scaled.activations.values()):
        errors = [table[width] for width in WIDTHS]
        assert errors == sorted(errors, reverse=True)
    # The tensor's own error says that the layer with large numbers is little worse than another.
    ratios = {
        t.measure: t.activations["fragile"][8] / t.activations["second"][8] for t in (own, scaled)
    }
    assert ratios[measure] > 100 * ratios["mse"]


def test_layers_that_bear_no_width_stay_as_they_are() -> None:
    """One layer alone costs more than 30 dB leave; without it 8 bits for all cost little."""
    graph, ranges, reference = _case()
    weights, activations = robust_widths(reference, ranges, (8, 8), 30.0)
    uniform = choose_bits(graph, ranges, 8, 8)
    assert set(uniform) - set(activations) == {"fragile", "dense"}  # of answers nothing is rounded
    assert set(weights) == {"fragile", "second", "dense"}
    kept = choose_bits(graph, ranges, weights, activations)
    assert kept["fragile"].activation is None
    assert reference.signal_to_noise_db(kept) > 30 > reference.signal_to_noise_db(uniform)
    assert robust_widths(reference, ranges, (None, 8), -100.0)[0] == {}


def test_what_outputs_lose_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found once for a model, samples and measure; ranges serve all measures."""
    graph = fragile_graph()
    samples = [Sample(feeds, Path("x")) for feeds in draw_samples()]
    own = find_data(graph, samples, tmp_path)
    found = find_data(graph, samples, tmp_path, measure="noise")
    assert (own.errors.measure, found.errors.measure) == ("mse", "noise")
    assert len(list(tmp_path.iterdir())) == 3  # what weights lose lies apart
    monkeypatch.setattr(QuantisationData, "at_outputs", None)
    again = find_data(graph, samples, tmp_path, measure="noise")
    assert again.errors == found.errors
    widths = {"second": 8}
    assert again.bits(graph, widths, widths) == own.bits(graph, widths, widths)
    assert np.isfinite(list(found.errors.activations["fragile"].values())).all()
