"""Settings of single methods, read from text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from partita.errors import PlanError
from partita.planners.settings import read_settings, setting_names


@dataclass(frozen=True)
class Settings:
    """One field of every type that a method may have."""

    rounds: int = 3
    share: float = 0.5
    learn: bool = True
    limit: float | None = None
    mode: Literal["fast", "exact"] = "fast"
    file: str | None = None
    bits: Literal[2, 4] | None = None


def read(**given: str) -> Settings:
    """Read settings of the method ``m``."""
    return read_settings(Settings(), "m", {f"m.{name}": text for name, text in given.items()})


def test_nothing_given_changes_nothing() -> None:
    """The defaults come back, also where other methods are told something."""
    assert read_settings(Settings(), "m", {"other.rounds": "9"}) == Settings()


def test_each_type_is_read() -> None:
    """Whole numbers, numbers, truth, choices and text."""
    texts = {"rounds": "7", "share": "0.25", "learn": "no", "limit": "2.5", "mode": "exact"}
    given = read(**texts, file="a.bin", bits="4")
    assert given == Settings(7, 0.25, False, 2.5, "exact", "a.bin", 4)


@pytest.mark.parametrize("text", ["true", "YES", "1"])
def test_words_for_true(text: str) -> None:
    """Capitals do not matter."""
    assert read(learn=text).learn is True


def test_none_takes_an_optional_value_back() -> None:
    """``none`` is a value of optional settings only."""
    assert read(limit="none").limit is None
    with pytest.raises(PlanError, match=r"'m\.share' is 'none', must be a number"):
        read(share="none")


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("rounds", "2.5", "a whole number"),
        ("share", "half", "a number"),
        ("learn", "maybe", "true or false"),
        ("mode", "slow", "fast or exact"),
        ("bits", "7", "2, 4 or none"),
        ("limit", "half", "a number or none"),
    ],
)
def test_wrong_text_is_answered_with_what_is_allowed(name: str, text: str, allowed: str) -> None:
    """The message names the setting, what came, and what may come."""
    with pytest.raises(PlanError, match=rf"'m\.{name}' is '{text}', must be {allowed}"):
        read(**{name: text})


def test_unknown_settings_list_the_known() -> None:
    """A wrong name is answered with all right ones; a method without settings says so."""
    with pytest.raises(PlanError, match=r"'m\.round' is unknown; 'm' has: rounds, share"):
        read(round="1")
    with pytest.raises(PlanError, match="'m' has: none"):
        read_settings(None, "m", {"m.rounds": "1"})


def test_names_are_the_fields() -> None:
    """What users may set is what the dataclass has."""
    assert setting_names(Settings()) == (
        *("rounds", "share", "learn", "limit", "mode", "file", "bits"),
    )
    assert setting_names(None) == ()
