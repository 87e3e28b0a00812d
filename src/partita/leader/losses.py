"""The devices and links that a session goes on without."""

from __future__ import annotations

from dataclasses import dataclass

from partita.execution.durations import Pair

#: Why a device is lost that is there and is no member any more.
REVOKED = "it was revoked"
#: What is lost, in whatever order it was.
LostKey = frozenset[str | Pair]


@dataclass(frozen=True)
class Lost:
    """Devices that do not answer any more, and pairs of devices that do not reach each other.

    Attributes:
        devices: In the order of their losses.
        links: Pairs of devices, each in the order of names; neither direction can be used.
    """

    devices: tuple[str, ...] = ()
    links: tuple[Pair, ...] = ()

    @classmethod
    def link(cls, one: str, other: str) -> Lost:
        """The loss of the link between two devices."""
        return cls(links=(min((one, other), (other, one)),))

    @property
    def key(self) -> LostKey:
        """The same for the same losses in another order."""
        return frozenset((*self.devices, *self.links))

    def without(self, device: str) -> Lost:
        """What is still lost when a device is there again; its links may be, too."""
        return Lost(
            tuple(name for name in self.devices if name != device),
            tuple(pair for pair in self.links if device not in pair),
        )

    def __or__(self, other: Lost) -> Lost:
        return Lost(
            tuple(dict.fromkeys((*self.devices, *other.devices))),
            tuple(dict.fromkeys((*self.links, *other.links))),
        )

    def __bool__(self) -> bool:
        return bool(self.devices or self.links)

    def __str__(self) -> str:
        devices = [f"device {name!r}" for name in self.devices]
        return " and ".join(devices + [f"the link between {a!r} and {b!r}" for a, b in self.links])
