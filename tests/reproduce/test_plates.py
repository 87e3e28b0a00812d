from dataclasses import replace

import pytest

from partita.demo.conditions import CLEAR
from partita.demo.package import _FILES, LARGE_READER, TEXTS
from partita.demo.photo import draw_photo
from partita.reproduce.autosplit import plate_case, plates
from partita.reproduce.autosplit.plate_case import (
    FLOAT_CLOUD,
    FLOAT_EDGE,
    JPEG_CLOUD,
    LARGE_SPLIT,
    SPLIT,
    TQ,
    Solved,
)
from partita.reproduce.bench import Bench
from partita.reproduce.chart import draw_charts
from partita.reproduce.study import Study


@pytest.fixture
def few(monkeypatch):
    """The case on two photos of everything, and on one simulated pair of devices."""
    for name in ("SAMPLES", "JUDGED"):
        monkeypatch.setattr(plate_case, name, 2)
    (pair,) = (each for each in plates.SETTINGS if each.startswith("Pi"))
    monkeypatch.setattr(plates, "SETTINGS", {pair: plates.SETTINGS[pair]})
    plate_case.cascade_of.cache_clear()
    yield
    plate_case.cascade_of.cache_clear()


@pytest.mark.slow
def test_the_case_is_solved_in_every_way(few, monkeypatch):
    """The cut is sooner than either side alone, sends the plate and not the photo, and reads it."""
    ways = (FLOAT_EDGE, FLOAT_CLOUD, JPEG_CLOUD, SPLIT)
    monkeypatch.setattr(plates, "WAYS", ways)
    drawn = plates.simulate_plates(Bench(Study(images=2)))
    (table,) = drawn.tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {way.name for way in ways}
    edge, cloud, jpeg, split = (rows[way.name] for way in ways)
    assert split["predicted, ms"] < min(edge["predicted, ms"], cloud["predicted, ms"])
    assert (edge["sent, kB"], cloud["sent, kB"]) == (0, 921.6)
    assert 0 < split["sent, kB"] < jpeg["sent, kB"] < cloud["sent, kB"]
    assert cloud["edge, MB"] == 0 < split["edge, MB"] < edge["edge, MB"] / 4
    assert split["on the camera"] == "detector, crop"
    assert edge["plates, %"] == split["plates, %"] == 100
    assert draw_charts(drawn.charts).startswith(b"\x89PNG")


def test_a_network_that_is_not_installed_costs_its_row(monkeypatch):
    """The others are there, and a note says what to run."""
    package = replace(TEXTS, name="no_such_package_of_texts")
    digest = _FILES[LARGE_READER][1]
    monkeypatch.setitem(_FILES, LARGE_READER, (package, digest))
    known, notes = plate_case.list_ways((SPLIT, LARGE_SPLIT))
    assert known == [SPLIT]
    (note,) = notes
    assert note.startswith("AUTO-SPLIT (large reader) is left out: ")
    assert "pip install --no-deps no_such_package_of_texts==3.10.0" in note


def test_a_compressed_photo_is_read_as_it_arrives():
    """What is scored is what the reader gets: a photo squeezed too much is another one."""
    pixels, _ = draw_photo(0, plates=1, conditions=CLEAR)
    image = plate_case.feeds_of(pixels)["image"]
    assert (plate_case.travel(image, "raw") == image).all()
    assert (plate_case.travel(image, "jpeg20") != image).any()


def _row(way, percent, latency_s, edge_bytes):
    score = plate_case.PlateScore(plates=1000, found=1000, exact=10 * percent, characters=6000)
    return plates.Row(Solved(way, object(), "", latency_s, edge_bytes), score)


def test_claims_say_what_the_numbers_say():
    """Slower than all in the cloud, or less accurate, and the paper's sentences do not hold."""
    rows = [
        _row(FLOAT_EDGE, 90, 4.0, 8_000_000),
        _row(FLOAT_CLOUD, 90, 1.0, 0),
        _row(JPEG_CLOUD, 90, 0.2, 0),
        _row(TQ, 80, 3.0, 2_000_000),
        _row(SPLIT, 88, 0.5, 500_000),
        _row(LARGE_SPLIT, 95, 0.51, 500_000),
    ]
    assert [claim.holds for claim in plates.claim("lab", rows, "simulation")] == [True] * 4
    rows[4] = _row(SPLIT, 80, 1.1, 2_500_000)
    rows[5] = _row(LARGE_SPLIT, 80, 1.3, 500_000)
    assert [claim.holds for claim in plates.claim("lab", rows, "simulation")] == [False] * 4
    assert plates.claim("lab", rows[:3], "simulation") == []
