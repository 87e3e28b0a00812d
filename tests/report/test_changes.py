"""Changes of plan as a table and on the page."""

from __future__ import annotations

from dataclasses import replace

from tests.report.samples import make_bundle

from partita.execution import Change
from partita.report.changes import tabulate_changes
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
