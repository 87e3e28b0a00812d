"""The benchmark of loading says of its numbers what they are."""

from __future__ import annotations

import pytest
from benchmarks.loading import LADDER, SINGLE, VARIANTS, ModelTimes, list_rows

from partita.reproduce.loading.bench.trials import LoadTrial


def _trial(answered_s: float, *, steady_s: float = 0.1, peak_bytes: float = 1e9) -> LoadTrial:
    return LoadTrial(0.2, answered_s / 2, answered_s, steady_s, peak_bytes, (0.1, 0.3))


def _found(slower: float = 1.0, **told: float) -> ModelTimes:
    """Return a model whose variants take 1 s, the bundle a tenth of it, the optimised one 0.2 s."""
    warm = {variant: _trial(1.0) for variant in VARIANTS}
    warm |= {
        f"torch_{variant}": _trial(2.0) for variant in ("load", "children", "children_in_turn")
    }
    warm |= {"optimised": _trial(0.2), "bundle": _trial(0.1 * slower, **told)}
    cold = {variant: _trial(2.0) for variant in VARIANTS}
    cold |= {"optimised": _trial(0.5), "bundle": _trial(0.4 * slower)}
    return ModelTimes(550_000_000, warm, cold, (0.05, 0.3), 2)


def test_a_model_that_meets_all() -> None:
    """Ratios are of times to the first answer; the floor is the longer of reading and one run."""
    rows = {row.case: row for row in list_rows({"vgg16": _found()})}
    assert all(row.met is not False for row in rows.values())
    assert rows["vgg16 (550 MB, 2 children), warm"].ratio == pytest.approx(10)
    assert rows["vgg16, warm, against the floor"].peer == pytest.approx(100)
    assert rows["vgg16, cold, against the floor"].peer == pytest.approx(300)
    assert rows["vgg16, cold, against the best session (optimised)"].ratio == pytest.approx(1.25)
    assert rows["vgg16, PyTorch, from process start"].ratio == pytest.approx(2.2 / 0.3)
    assert rows["vgg16, torch children against torch load (bound 1.33x)"].ratio == 1.0


@pytest.mark.parametrize(
    ("found", "case"),
    [
        (_found(1.4), "vgg16 (550 MB, 2 children), warm"),
        (_found(1.26), "vgg16, warm, against the floor"),
        (_found(1.3), "vgg16, cold, against the best session (optimised)"),
        (_found(steady_s=0.104), "vgg16, later answers"),
        (_found(peak_bytes=1.11e9), "vgg16, peak memory"),
        (_found(1.3), "mean of all 1, cold"),
    ],
)
def test_a_missed_target_is_told(found: ModelTimes, case: str) -> None:
    """Each target is missed by a little more than is allowed."""
    rows = {row.case: row for row in list_rows({"vgg16": found})}
    assert rows[case].met is False


def test_the_ladder_multiplies_to_the_whole_gain() -> None:
    """Its steps, warm, give the bundle's gain over the plain file; no variant is on it twice."""
    rows = [row for row in list_rows({"resnet152": _found()}) if "others, warm" in row.case]
    product = 1.0
    for row in rows:
        product *= row.ratio or 0.0
    assert product == pytest.approx(10)
    assert len(rows) == len(LADDER) - 1
    assert set(LADDER) <= set(VARIANTS)
    assert set(SINGLE) <= set(VARIANTS)
