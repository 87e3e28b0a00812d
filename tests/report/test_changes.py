"""Changes of plan as a table and on the page."""

from __future__ import annotations

from dataclasses import replace

from tests.report.samples import make_bundle

from partita.execution import Change
from partita.report import PlanRun
from partita.report.changes import tabulate_changes, tabulate_plan_runs
from partita.report.page import write_page

CHANGE = Change(
    12.5,
    "link <a> → b at 20% of its rate",
    "rolled back",
    "the new plan measured slower than the old one",
    2.0,
    15.0,
    predicted_old_s=0.4,
    predicted_new_s=0.2,
    measured_old_s=0.5,
)


def test_a_change_has_its_time_reason_outcome_and_latencies() -> None:
    """One row tells when and why, what came of it, and old beside new; what is unknown is open."""
    (row,) = tabulate_changes([CHANGE]).rows
    assert row[0] == "12.5 s"
    assert row[2].startswith("rolled back: the new plan measured slower")
    assert row[-2:] == ("400 ms → 200 ms", "500 ms → –")


def test_without_measurements_the_column_is_gone() -> None:
    """A search that kept the plan leaves no empty columns."""
    kept = replace(CHANGE, measured_old_s=None)
    assert "measured, old → new" not in tabulate_changes([kept]).columns


def test_the_page_shows_changes_only_where_there_are_some() -> None:
    """The heading is there with a change, escaped like all names, and absent without."""
    bundle = make_bundle()
    assert "Changes of plan" not in write_page(bundle)
    page = write_page(replace(bundle, changes=(CHANGE,)))
    assert "Changes of plan" in page
    assert "<a>" not in page


def test_each_plan_stands_beside_its_own_prediction() -> None:
    """Where nothing ran under the last plan, it has a prediction alone."""
    runs = (PlanRun("at first", 0.1, 0.11, 4), PlanRun("at the end", 0.2, None, 0))
    first, last = tabulate_plan_runs(runs).rows
    assert first == ("at first", "4", "100 ms", "110 ms", "+10.0 %")
    assert last == ("at the end", "0", "200 ms", "–", "–")


def test_the_page_says_how_far_the_last_prediction_was_off() -> None:
    """Where the plan changed, the whole run is compared with no prediction."""
    runs = (PlanRun("at first", 0.1, 0.2, 4), PlanRun("at the end", 0.2, 0.21, 3))
    bundle = make_bundle()
    page = write_page(replace(bundle, predicted=None, last_plan=bundle.plan, plan_runs=runs))
    assert 'prediction of the plan at the end off by</dt><dd class="">+5.0 %' in page
    assert page.count("off by") == 1
    assert "Latency by plan" in page
