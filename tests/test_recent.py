"""What is kept of what would grow with the months."""

from __future__ import annotations

from partita.recent import Recent


def test_what_was_set_last_stays() -> None:
    """Also of what it is given to begin with; an entry that is set again is among the last."""
    recent = Recent(2, {"a": 1, "b": 2, "c": 3})
    assert recent == {"b": 2, "c": 3}
    recent["b"] = 4
    recent["d"] = 5
    assert recent == {"b": 4, "d": 5}
