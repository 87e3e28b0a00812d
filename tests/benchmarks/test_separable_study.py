"""Which networks the study trains next."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.separable_training.study import Scale, Wanted, is_decided, ready_jobs

from partita.errors import InputError
from partita.reproduce.separable.results import Trained, TrainingResults

SCALE = Scale({"equal": "4x4d-11", "talking": "4x2d-11"}, 100, 1, 10, seeds=(2, 4))
FOLDERS = (Path("pictures"), Path("weights"))


def _ready(results: TrainingResults, part: str, *kinds: str) -> list[tuple[int, str]]:
    wanted = Wanted((part,), kinds)
    return [(job.seed, job.kind) for job in ready_jobs(SCALE, wanted, results, FOLDERS)]


def _add(results: TrainingResults, part: str, kind: str, *accuracies: float) -> None:
    start = len(results.find(part, kind))
    results.runs += [
        Trained(part, kind, start + seed, accuracy, policy="1,2,3")
        for seed, accuracy in enumerate(accuracies)
    ]


def test_what_is_trained_is_not_trained_again() -> None:
    """The rest of a seed comes first, then the next seed."""
    results = TrainingResults()
    _add(results, "equal", "plain", 0.9)
    ready = [(0, "separable"), (0, "synchronous"), (1, "plain")]
    assert _ready(results, "equal")[:3] == ready


def test_policies_are_found_before_networks_are_trained_under_them() -> None:
    """A search is ready at once, what it finds after it; chance has as many bytes."""
    results = TrainingResults()
    ready = [kind for seed, kind in _ready(results, "talking") if seed == 0]
    assert ready == ["plain", "silent", "separable", "search controller"]
    _add(results, "talking", "search controller", 0.8)
    jobs = [
        job for job in ready_jobs(SCALE, Wanted(("talking",)), results, FOLDERS) if job.seed == 0
    ]
    policies = {job.kind: job.policy for job in jobs}
    assert policies["found"] == policies["search random"] == "1,2,3"
    assert "random" not in policies


def test_seeds_end_where_an_interval_is_clear() -> None:
    """Differences of a point decide; those that wander around the target do not."""
    clear, unclear = TrainingResults(), TrainingResults()
    for results, values in ((clear, (0.91, 0.9101)), (unclear, (0.88, 0.91))):
        _add(results, "equal", "plain", 0.9, 0.9)
        _add(results, "equal", "separable", *values)
        _add(results, "equal", "synchronous", *values)
    assert is_decided("equal", clear)
    assert not is_decided("equal", unclear)
    assert _ready(clear, "equal") == []
    assert {seed for seed, _ in _ready(unclear, "equal")} == {2, 3}


def test_what_silence_costs_is_shown_before_anything_is_searched() -> None:
    """Kinds that are asked for are trained alone; what they left out is added later."""
    results = TrainingResults()
    both = [(seed, kind) for seed in range(4) for kind in ("plain", "silent")]
    assert _ready(results, "talking", "plain", "silent") == both
    _add(results, "talking", "plain", 0.9, 0.9, 0.9, 0.9)
    _add(results, "talking", "silent", 0.8, 0.8, 0.8, 0.8)
    assert _ready(results, "talking", "plain", "silent") == []
    assert _ready(results, "talking")[0] == (0, "separable")
    with pytest.raises(InputError, match="--kinds 'loud': allowed are found, plain, random"):
        Wanted(("talking",), ("loud",))
