"""What leaders and workers say to each other, field by field, and whether a change of it breaks.

Versions of one protocol (``PROTOCOL_VERSION``) work together: fields may come, with defaults, and
nothing else may change without another number.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec

from partita.fabric import flows, frames, local_socket, zenoh_control
from partita.fabric.key_expressions import Keys
from partita.leader import sample
from partita.worker import leaders, messages

#: Where messages are defined; what their fields hold is found from there.
_MODULES: tuple[ModuleType, ...] = (messages, leaders, sample, frames, flows, zenoh_control)


def describe_messages() -> dict[str, Any]:
    """Return the protocol's number, all types of messages, and how bytes are laid out."""
    return {
        "protocol": messages.PROTOCOL_VERSION,
        "types": {kind.__name__: _describe(kind) for kind in _list_types()},
        "wire": _describe_wire(),
    }


def find_breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return what another version could not read, or be read by, though its number is the same.

    Args:
        old: As :func:`describe_messages` gave it once.
        new: As it gives it now.
    """
    if new["protocol"] != old["protocol"]:
        return []
    found = [f"{name} changed" for name, how in old["wire"].items() if new["wire"].get(name) != how]
    for name, was in old["types"].items():
        now = new["types"].get(name)
        found += [f"{name} is gone"] if now is None else _compare(name, was, now)
    return found


def _compare(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if (old["kind"], old["refuses_more"]) != (new["kind"], new["refuses_more"]):
        yield f"{name} is written in another way"
    fields, known = new["fields"], [field[0] for field in old["fields"]]
    for place, (field, kind, is_required) in enumerate(old["fields"]):
        now = next((each for each in fields if each[0] == field), None)
        if now is None:
            yield f"{name}.{field} is gone"
        elif now[1] != kind or (now[2] and not is_required):
            yield f"{name}.{field} is of another type"
        elif old["kind"].startswith("array") and fields[place][0] != field:
            yield f"{name}.{field} is in another place"
    for field, _, is_required in fields:
        if field not in known and (is_required or new["refuses_more"]):
            yield f"{name}.{field} is new, and has to be there or is refused by others"


def _list_types() -> list[type]:
    """All types of messages, and those of their fields, by name."""
    todo = [
        kind
        for module in _MODULES
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
    ]
    found: dict[str, type] = {}
    while todo:
        kind = todo.pop()
        if found.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"two messages are called {kind.__name__}")
        for _, hint, _ in _list_fields(kind):
            todo += [each for each in _list_parts(hint) if each.__name__ not in found]
    return [found[name] for name in sorted(found)]


def _describe(kind: type) -> dict[str, Any]:
    config = getattr(kind, "__struct_config__", None)
    layout = "array" if config is not None and config.array_like else "object"
    tag = getattr(config, "tag", None)
    return {
        "kind": layout if tag is None else f"{layout}, tag {tag}",
        "refuses_more": bool(getattr(config, "forbid_unknown_fields", False)),
        "fields": [[name, _word(hint), required] for name, hint, required in _list_fields(kind)],
    }


def _list_fields(kind: type) -> list[tuple[str, Any, bool]]:
    """Name on the wire, type, and whether it has to be there, in order."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        missing = dataclasses.MISSING
        return [
            (field.name, hints[field.name], missing is field.default is field.default_factory)
            for field in dataclasses.fields(kind)
        ]
    return [
        (field.encode_name, field.type, field.required) for field in msgspec.structs.fields(kind)
    ]


def _list_parts(hint: Any) -> Iterator[type]:
    """The types with fields that a type is made of."""
    if isinstance(hint, type) and (
        issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint)
    ):
        yield hint
    for part in typing.get_args(hint):
        yield from _list_parts(part)


def _word(hint: Any) -> str:
    """A type without modules; what is annotated to it limits values, and is told, too."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return re.sub(r"<class '([^']*)'>|\b(?:\w+\.)+", r"\1", str(hint))


def _describe_wire() -> dict[str, str]:
    """How bytes are laid out where they are no message."""
    keys = Keys("cluster")
    return {
        "data key": keys.data("target", "source"),
        "note key": keys.note("target", "source"),
        "call key": keys.call("target", "role", "source"),
        "token": keys.alive("name", "incarnation"),
        "flush": flows.FLUSH_MARK.hex(),
        "local frame": str(local_socket._HEAD.format),
        "local hello": str(local_socket._HELLO.format),
    }
