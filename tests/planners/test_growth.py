"""The study of growth: a short form of it, and what it draws."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.growth import Study, draw_network, line_rows, list_points, power_law
from benchmarks.growth_tables import draw_pictures, list_tables

from partita.graph import load_graph


@pytest.mark.parametrize("kind", ["chain", "residual"])
@pytest.mark.parametrize("layers", [20, 51])
def test_drawn_networks_have_as_many_layers_as_asked(kind: str, layers: int) -> None:
    """Sums and activations are fused to convolutions, and count as no layers."""
    assert len(load_graph(draw_network(kind, layers), name="n").layers) == layers


def test_points_are_measured_once_and_shown(tmp_path: Path) -> None:
    """Three small points: each phase has seconds; what the file has is not measured again."""
    asked = Namespace(axes=["layers"], networks=["chain"], planners=["cut"], sizes=[6, 12, 20])
    points = list(list_points(asked))
    file = tmp_path / "growth.json"
    study = Study(file, 60.0)
    study.run(points)
    assert [one["layers"] for one in study.found.values()] == [6, 12, 20]
    for one in study.found.values():
        assert 0 < one["bound_s"] <= one["latency_s"]
        assert set(one["seconds"]) >= {"read", "plan", "lower", "simulate", "tables", "report"}
    again = Study(file, 60.0)
    again._measure = None  # type: ignore[assignment,method-assign]  # nothing is left to measure
    again.run(points)
    assert again.found == json.loads(file.read_text())
    tables = "\n".join(list_tables(again.found, power_law))
    assert "| chain on 4, cut |" in tables
    assert list(draw_pictures(again.found)) == ["growth-layers.png"]
    assert line_rows(again.found)[0].case == "chain, 4 devices, cut, latency, 20 layers"


def test_a_line_ends_where_it_takes_too_long() -> None:
    """The first point beyond the limit is the last of its line; others go on."""
    asked = Namespace(axes=["layers"], networks=["chain"], planners=["cut"], sizes=[6, 12, 20])
    study = Study(None, 0.0)
    study.run(list(list_points(asked)))
    assert [one["layers"] for one in study.found.values()] == [6]
