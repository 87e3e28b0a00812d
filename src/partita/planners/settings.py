"""Settings of single methods: given as text by name, read as what the method declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from partita.errors import PlanError

Settings = TypeVar("Settings")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_settings(defaults: Settings, planner: str, given: Mapping[str, str]) -> Settings:
    """A method's settings with those replaced that are given for it.

    Args:
        defaults: A dataclass: its fields are the settings, their types say what text is allowed.
        planner: The method's name; keys of other methods are passed over.
        given: Values by ``planner.setting``.

    Raises:
        PlanError: A key names no setting, or a value has the wrong form.
    """
    mine = {
        key.partition(".")[2]: value
        for key, value in given.items()
        if key.partition(".")[0] == planner
    }
    known = setting_names(defaults)
    for name in mine:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise PlanError(
                f"Setting '{planner}.{name}' is unknown; '{planner}' has: {allowed}.",
                subject=f"{planner}.{name}",
            )
    if not mine or not is_dataclass(defaults) or isinstance(defaults, type):
        return defaults
    kinds = get_type_hints(type(defaults))
    read = {name: _parse(f"{planner}.{name}", kinds[name], text) for name, text in mine.items()}
    return replace(defaults, **read)


def setting_names(defaults: object) -> tuple[str, ...]:
    """The names of a method's settings; none for a method that has no settings."""
    return tuple(setting.name for setting in fields(defaults)) if is_dataclass(defaults) else ()


def _parse(key: str, kind: Any, text: str, more: str = "") -> Any:
    """Text as a value of the field's type.

    Args:
        more: What is allowed besides.
    """
    if get_origin(kind) is Literal:
        named = {str(value): value for value in get_args(kind)}
        if text in named:
            return named[text]
        *rest, last = [*named, *more.removeprefix(" or ").split()]
        raise _wrong(key, text, f"{', '.join(rest)} or {last}")
    options = get_args(kind) if get_origin(kind) is Union or type(None) in get_args(kind) else ()
    if options:
        if text == "none":
            return None
        return _parse(
            key, next(kind for kind in options if kind is not type(None)), text, " or none"
        )
    if kind is bool:
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        raise _wrong(key, text, f"true or false{more}")
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise _wrong(key, text, f"{what}{more}") from None


def _wrong(key: str, text: str, allowed: str) -> PlanError:
    return PlanError(f"Setting '{key}' is '{text}', must be {allowed}.", subject=key)
