"""What others build on does not change by accident.

After a wanted change: ``python -m tests.surface.update``, and say so in the change's message.
"""

import json

import pytest
from tests.surface.replies import list_keys
from tests.surface.update import GOLDEN, SECTIONS


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
