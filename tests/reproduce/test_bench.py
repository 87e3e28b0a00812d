"""Methods are measured alike, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from partita.errors import PlanError
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.study import Case, Study
from partita.simulation import simulate
from tests.reproduce.samples import small_graph

_CASE = Case("DB-300", "small", "equal_rows")


@pytest.fixture(scope="module")
def bench() -> Bench:
    """Return a bench whose only model is small."""
    return Bench(Study(images=7), load_model=small_graph)


def test_rate_is_that_of_a_stream_one_by_one(bench: Bench) -> None:
    """Images per second are those of the simulated stream, each image fed after the last answer."""
    outcome = bench.measure(_CASE)
    cost = bench.cost(_CASE.scenario, _CASE.model)
    layout = cost.layout(bench.plan(_CASE).plan)
    report = simulate(layout.program, cost.price(layout), requests=7, in_flight=1)
    assert outcome.images_per_second == pytest.approx(report.images_per_second)
    assert outcome.latency_s == pytest.approx(1 / report.images_per_second)
    busy_s = max(use.busy_s for use in report.devices)
    assert outcome.max_compute_s == pytest.approx(busy_s / 7)


def test_all_methods_send_half_precision(bench: Bench) -> None:
    """Every tensor of single precision travels as float16, for every method."""
    wires = bench.plan(_CASE).plan.wires
    assert wires["x"] == wires["y"] == "float16"
    assert set(wires) == set(bench.graph("small").tensors)


def test_the_requester_only_asks(bench: Bench) -> None:
    """No method places work on the telephone."""
    for planner in ("best", "single", "equal_rows"):
        plan = bench.plan(replace(_CASE, planner=planner)).plan
        devices = {shard.device for stage in plan.stages for shard in (*stage.shards, *stage.merge)}
        assert "phone" not in devices


def test_kept_results_are_not_measured_again(tmp_path: Path) -> None:
    """A second bench with the same folder gives the same outcome and never loads the model."""
    first = Bench(Study(), cache=ResultCache(tmp_path), load_model=small_graph).measure(_CASE)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} was loaded")

    again = Bench(Study(), cache=ResultCache(tmp_path), load_model=refuse)  # type: ignore[arg-type]
    assert again.measure(_CASE) == first
    other = Bench(Study(images=8), cache=ResultCache(tmp_path), load_model=refuse)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="small was loaded"):
        other.measure(_CASE)


def test_no_plan_is_an_outcome() -> None:
    """A method that finds nothing says why, and the others go on; an unknown one is bad input."""
    bench = Bench(Study(), load_model=small_graph)
    assert "would look at" in bench.measure(replace(_CASE, planner="exhaustive")).fault
    with pytest.raises(PlanError, match="'nobody' is unknown"):
        bench.measure(replace(_CASE, planner="nobody"))
