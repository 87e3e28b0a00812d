"""What others build on does not change by accident.

After a wanted change: ``python -m tests.surface.update``, and say so in the change's message.
"""

import json

import pytest
from tests.surface.update import GOLDEN, SECTIONS


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_surface_is_frozen(section: str) -> None:
    """Exported names, commands, flags, replies, plan schema and errors are those on record."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert SECTIONS[section]() == golden[section]
