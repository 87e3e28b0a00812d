"""Tables and figures of separable networks: what is counted, and what was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from partita.errors import InputError
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.figure import Drawn
from partita.reproduce.separable.costs import (
    make_best,
    make_costs,
    make_decisions,
    make_levels,
)
from partita.reproduce.separable.deployment import Timed, draw_deployment
from partita.reproduce.separable.intervals import difference
from partita.reproduce.separable.models import make_models
from partita.reproduce.separable.requirement import make_requirements
from partita.reproduce.separable.results import RESULTS, Curve, Trained, TrainingResults
from partita.reproduce.separable.training import make_accuracies, make_curves
from partita.reproduce.study import Study


def _bench(folder: Path | None = None, results: TrainingResults | None = None) -> Bench:
    if folder is not None and results is not None:
        (folder / RESULTS).write_bytes(msgspec.json.encode(results))
    return Bench(Study(), cache=ResultCache(folder))


def _verdicts(drawn: Drawn) -> dict[str, bool]:
    return {f"{claim.subject}: {claim.paper}": claim.holds for claim in drawn.claims}


def _column(drawn: Drawn, name: str, table: int = 0) -> list[object]:
    place = drawn.tables[table].columns.index(name)
    return [row[place] for row in drawn.tables[table].rows]


def test_table_1_is_exact() -> None:
    """4,394,676 and 4,539,444 learned numbers; larger by 3.29 %."""
    drawn = make_models(_bench())
    assert _column(drawn, "plain", 1)[0] == 4_394_676
    assert _column(drawn, "4 groups", 1)[0] == 4_539_444
    assert _column(drawn, "larger, %", 1)[0] == pytest.approx(3.29, abs=0.005)
    said = {claim.paper for claim in drawn.claims if claim.holds}
    assert {"4.39M parameters", "4.54M parameters"} <= said
    assert _column(drawn, "separable")[0] == "1x1, 128/4; 3x3, 128/8; 1x1, 256/4; times 6"


def test_tables_3_and_4_are_exact() -> None:
    """24 decisions, nine of them communication-intensive; nine levels."""
    decisions, levels = make_decisions(_bench()), make_levels(_bench())
    assert all(_verdicts(decisions).values())
    assert decisions.tables[0].rows[7] == ("7", "1, 0, 3, 2", "yes", 4)
    assert _column(levels, "channels") == [32 + 4 * level for level in range(9)]


def test_table_5_costs_what_can_be_computed() -> None:
    """31.48, 27.78 (printed: 27.99, a slip) and 14.44 (printed: 14.43, cut off)."""
    drawn = make_costs(_bench())
    assert [round(float(str(cost)), 2) for cost in _column(drawn, "in bytes")] == [
        100, 30.16, 24.40, 14.20
    ]  # fmt: skip
    assert [round(float(str(row[4])), 2) for row in drawn.tables[0].rows] == [
        100, 31.48, 27.78, 14.44
    ]  # fmt: skip
    wrong = [claim for claim, holds in _verdicts(drawn).items() if not holds]
    assert [words.split(": ")[1] for words in wrong] == [
        "costs 27.99%",
        "decreases transmission by 86.6% (abstract)",
    ]


def test_nothing_is_made_up_where_nothing_was_trained() -> None:
    """Accuracies are missing, and the command that trains is said."""
    for make in (make_costs, make_accuracies, make_curves):
        drawn = make(_bench())
        assert "benchmarks.separable_training study" in drawn.notes[-1]
        assert not any(claim.source == "measurement" for claim in drawn.claims)
    assert _column(make_costs(_bench()), "ours")[:1] == [None]


def test_table_6_is_not_by_chance() -> None:
    """Seven of nine windows in which all send: 1.70 % likely."""
    drawn = make_best(_bench())
    assert _column(drawn, "all send")[0] == 7
    assert _column(drawn, "as many by chance, %")[0] == pytest.approx(1.70, abs=0.005)
    assert _column(drawn, "messages")[0] == 34


def test_figure_5_has_the_papers_pi() -> None:
    """An alpha of 0.27 suffices; a line for each alpha, halved from one to two."""
    drawn = make_requirements(_bench())
    (claim,) = drawn.claims
    assert claim.holds
    assert claim.ours.startswith("alpha of at least 0.27")
    lines = drawn.charts[0].series
    assert lines["alpha = 1"][0] == pytest.approx(2 * float(lines["alpha = 2"][0] or 0))
    assert any(value == 300.0 for value in lines["Raspberry Pi 3B+"])


def test_figure_6_compares_with_one_device() -> None:
    """Three times as fast as the same device alone bears the sentence out, twice does not."""
    one = Timed(0.09, 0.09, 0.0)
    fast, slow = Timed(0.03, 0.02, 0.01), Timed(0.045, 0.02, 0.03)
    alone = {("a", "plain on one"): one, ("a", "separable on one"): one}
    drawn = draw_deployment({**alone, ("a", "on 4"): fast, ("a", "on 4, slower"): slow})
    assert [claim.holds for claim in drawn.claims] == [True, False]
    assert _column(drawn, "speedup") == pytest.approx([1, 1, 3, 2])


def _results(plain: Sequence[float], separable: Sequence[float]) -> TrainingResults:
    kinds = {"plain": plain, "separable": separable}
    return TrainingResults(
        {"equal": "a small network"},
        [
            Trained("equal", kind, seed, accuracy)
            for kind, values in kinds.items()
            for seed, accuracy in enumerate(values)
        ],
        [
            Curve("controller", 0, [1.0, 0.5], [0.6, 0.8]),
            Curve("random", 0, [1.0, 0.6], [0.5, 0.7]),
        ],
    )


def test_differences_are_of_the_same_seeds() -> None:
    """Mean and Student's 90 % interval: 2.353 deviations of the mean for three degrees."""
    found = difference(_results([0.9, 0.8, 0.7, 0.6], [0.91, 0.80, 0.69, 0.60, 1.0]),
                       "equal", "separable", "plain")  # fmt: skip
    assert found is not None
    assert found.seeds == 4
    assert found.mean == pytest.approx(0.0, abs=1e-9)
    assert found.half == pytest.approx(2.353 * (2 / 3) ** 0.5 / 2, rel=1e-3)


def test_what_was_trained_is_shown(tmp_path: Path) -> None:
    """Table 2 has means of seeds and the paired difference; figure 4 has two curves."""
    results = _results([0.90, 0.91, 0.92], [0.90, 0.91, 0.93])
    drawn = make_accuracies(_bench(tmp_path, results))
    assert drawn.tables[1].rows[0][:3] == ("plain", 3, pytest.approx(91.0))
    (claim,) = drawn.claims
    assert "3 seeds, of a small network" in claim.ours
    curves = make_curves(_bench(tmp_path, results))
    assert curves.charts[1].series["controller"] == pytest.approx((60.0, 80.0))
    assert [claim.holds for claim in curves.claims] == [True]


def test_damaged_results_are_named(tmp_path: Path) -> None:
    """Not taken for none."""
    (tmp_path / RESULTS).write_bytes(b'{"runs": 3')
    with pytest.raises(InputError, match=r"separable-training\.json' cannot be read"):
        make_accuracies(_bench(tmp_path))
