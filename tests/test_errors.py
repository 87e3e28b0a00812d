"""What all errors have in common."""

from __future__ import annotations

from partita.errors import PlanError, RunError


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    """Line breaks of a name in a damaged file become spaces, in the text and in the attribute."""
    for error in (RunError("device 'a\nb\u2028c' is\r\nlost", device="a\nb"), PlanError("x\ny")):
        assert len(error.message.splitlines()) == 1
        assert str(error) == error.message
    assert RunError("a\nb").message == "a b"
