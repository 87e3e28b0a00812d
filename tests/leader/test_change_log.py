"""Changes of a session that are over."""

from __future__ import annotations

import pytest

from partita.execution import Change
from partita.leader import change_log
from partita.leader.change_log import ChangeLog
from partita.leader.history import History


def test_changes_of_months_are_counted_and_the_last_ones_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What viewers count is the same whether a change is kept or not."""
    monkeypatch.setattr(change_log, "MOST_CHANGES", 2)
    log = ChangeLog()
    for at_s, outcome in enumerate(("kept", "switched", "kept", "recovered", "kept")):
        log.add(Change(float(at_s), "why", outcome))
    assert [change.at_s for change in log.last] == [3.0, 4.0]
    assert log.forgotten == {"kept": 2, "switched": 1}
    counted = History(outcomes={"kept": 7}).counting(log.forgotten).with_session(0, log.last)
    assert counted.outcomes == {"kept": 10, "switched": 1, "recovered": 1}
