"""What others build on does not change by accident.

After a wanted change: ``python -m tests.surface.update``, and say so in the change's message.
"""

import copy
import json
from typing import Any

import msgspec
import pytest
from tests.surface.layers import find_regrouped
from tests.surface.replies import list_keys
from tests.surface.update import GOLDEN, SECTIONS
from tools import messages


@pytest.mark.slow
@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_surface_is_frozen(section: str) -> None:
    """Exported names, commands, flags, replies, plan schema and errors are those on record."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    # As the record has it: JSON knows lists, not tuples.
    found = json.loads(json.dumps(SECTIONS[section]()))
    assert found == golden[section]


def test_keys_of_nested_replies_have_paths() -> None:
    """Keys of objects within lists and objects are told apart by their path."""
    reply = {"a": [{"b": 1}, {"c": {"d": 2}}], "e": {"b": 3}}
    assert list_keys(reply) == {"a", "a[].b", "a[].c", "a[].c.d", "e", "e.b"}


def test_messages_change_with_their_version_only() -> None:
    """Leaders and workers of one protocol understand each other, whichever is the newer one."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["messages"]
    assert messages.find_breaks(golden, messages.describe_messages()) == []
    assert {"Prepare", "Program", "Send", "PieceHeader", "Ack", "Stats"} <= set(golden["types"])


def test_layers_change_with_their_version_only() -> None:
    """What is kept by a graph's hash names layers: others under the same hash would be misread."""
    old = {"version": 1, "models": {"a": "x", "b": "y"}}
    other = {"version": 1, "models": {"a": "x", "b": "z", "c": "w"}}
    assert find_regrouped(old, other) == ["b"]
    assert find_regrouped(old, {**other, "version": 2}) == []


class Old(msgspec.Struct, array_like=True):
    """A message as it was."""

    epoch: int
    name: str = ""


class More(msgspec.Struct, array_like=True):
    """The same with more, which has a default."""

    epoch: int
    name: str = ""
    peer: str = ""


class Needed(msgspec.Struct, array_like=True):
    """The same with more, which has none."""

    epoch: int
    name: str
    peer: str


class Moved(msgspec.Struct, array_like=True):
    """The same in another order."""

    name: str = ""
    epoch: int = 0


class Typed(msgspec.Struct):
    """The same by names, one of another type."""

    epoch: float
    name: str = ""


def described(kind: type, **wire: str) -> dict[str, Any]:
    """A protocol of one message."""
    return {"protocol": 1, "types": {"M": messages._describe(kind)}, "wire": wire}


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Old, []),
        (More, []),
        (Needed, ["M.name is of another type", "M.peer is new"]),
        (Moved, ["M.epoch is in another place", "M.name is in another place"]),
        (Typed, ["M is written in another way", "M.epoch is of another type"]),
    ],
)
def test_what_breaks_a_protocol(kind: type, told: list[str]) -> None:
    """Fields that are gone, moved, of another type, or new and needed; none under a new number."""
    new = described(kind)
    found = messages.find_breaks(described(Old), new)
    assert [each[: len(word)] for each, word in zip(found, told, strict=True)] == told
    raised = {**copy.deepcopy(new), "protocol": 2}
    assert messages.find_breaks(described(Old), raised) == []


def test_bytes_that_lie_elsewhere_break_a_protocol() -> None:
    """Keys, marks and heads are of the wire, too."""
    found = messages.find_breaks(described(Old, key="a/b"), described(Old, key="b/a"))
    assert found == ["key changed"]
    nothing = {"protocol": 1, "types": {}, "wire": {}}
    assert messages.find_breaks(described(Old), nothing) == ["M is gone"]
