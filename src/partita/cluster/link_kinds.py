"""Links by name, such as ``3G``: typical rates up and down."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

import msgspec

from partita.units import parse_quantity


class LinkKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one kind of link.

    Attributes:
        up: Rate at which the device that hangs on it sends, with its unit.
        down: Rate at which it receives.
        latency: One way.
        source: Where the figures come from; ``estimate`` marks those that nobody published.
    """

    title: str
    up: str
    down: str
    latency: str
    source: str

    def options(self, *, is_up: bool) -> dict[str, float]:
        """``bandwidth`` in bytes per second and ``latency`` in seconds of one direction."""
        return {
            "bandwidth": parse_quantity(self.up if is_up else self.down, "bandwidth"),
            "latency": parse_quantity(self.latency, "time"),
        }


@lru_cache(maxsize=1)
def load_link_kinds() -> Mapping[str, LinkKind]:
    """Every kind of link by name."""
    content = files("partita.cluster").joinpath("link_kinds.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(content), dict[str, LinkKind])
