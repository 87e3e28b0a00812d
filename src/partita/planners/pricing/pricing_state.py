"""Where devices, links and pieces are after some stages of a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from partita.planners.pricing.placement import Holdings
from partita.planners.pricing.tasks import StageTasks


class Lane(NamedTuple):
    """What a device does one thing at a time on.

    Attributes:
        begun_s: When the last step that found it idle began: one that is ready before that might
            have gone first.
    """

    free_s: float
    begun_s: float
    busy_s: float


class PortUse(NamedTuple):
    """One direction of a device's port.

    Attributes:
        given_s: When the last message was given to it; a port takes them in that order.
    """

    given_s: float
    free_s: float
    busy_s: float


class Arrival(NamedTuple):
    """A message that must be decoded.

    Attributes:
        there_s: When it arrives.
        place: In the order of the program.
        ready_s: Times of the device's pieces, into which its own goes.
        piece: The number of its piece.
    """

    there_s: float
    place: int
    decode_s: float
    ready_s: list[float]
    piece: int


IDLE = Lane(0.0, -1.0, 0.0)
UNUSED = PortUse(-1.0, 0.0, 0.0)


class OvertakenError(Exception):
    """A step may have to run before one that the program lists first."""


class ImpossibleError(Exception):
    """A draft breaks a rule; the full way of pricing says which."""


class TooSlowError(Exception):
    """A draft takes longer than a limit."""


class PricingState:
    """Where everything is after some blocks.

    Attributes:
        free_s: Per device, when its computing is done.
        begun_s: Per device, when the last task that found it idle began, see :class:`Lane`.
        sends: Per pair of devices that was used.
        ports: Per port that was used.
        receives: Per device that spent time on receiving.
        held: Live tensors.
        own: Those of them whose holdings no other state shares.
        load_bytes: Per device, at most so much memory.
        busy_s: Per device, seconds of computing.
        last_s: When all computing is done.
        needed_s: When all of it is done that an answer surely needs.
        lateness: Sum of powers of the ends of all steps.
        ends_s: When each task of the last block is done.
        ordered: Whether a step that might overtake another is refused.
    """

    __slots__ = (
        "begun_s", "busy_s", "ends_s", "free_s", "held", "last_s", "lateness", "load_bytes",
        "messages", "needed_s", "next", "ordered", "own", "ports", "receives", "sends",
    )  # fmt: skip

    def __init__(self, devices: int) -> None:
        self.free_s = [0.0] * devices
        self.begun_s = [-1.0] * devices
        self.busy_s = [0.0] * devices
        self.load_bytes = [0] * devices
        self.sends: dict[int, Lane] = {}
        self.ports: dict[int, PortUse] = {}
        self.receives: dict[int, Lane] = {}
        self.held: dict[str, Holdings[float]] = {}
        self.own: set[str] = set()
        self.messages = 0
        self.lateness = 0.0
        self.last_s = 0.0
        self.needed_s = 0.0
        self.ends_s: Sequence[float] = ()
        self.ordered = True
        self.next: dict[StageTasks, PricingState | type[Exception]] = {}

    def copy(self) -> PricingState:
        """A state that can be changed without changing this one."""
        other = PricingState.__new__(PricingState)
        other.free_s = self.free_s.copy()
        other.begun_s = self.begun_s.copy()
        other.busy_s = self.busy_s.copy()
        other.load_bytes = self.load_bytes.copy()
        other.sends = self.sends.copy()
        other.ports = self.ports.copy()
        other.receives = self.receives.copy()
        other.held = self.held.copy()
        other.own = set()
        other.messages = self.messages
        other.lateness = self.lateness
        other.last_s = self.last_s
        other.needed_s = self.needed_s
        other.ends_s = self.ends_s
        other.ordered = self.ordered
        other.next = {}
        return other

    def own_holdings(self, tensor: str) -> Holdings[float]:
        """A live tensor's holdings, to be changed without changing those of other states."""
        held = self.held[tensor]
        if tensor not in self.own:
            held = self.held[tensor] = held.copy()
            self.own.add(tensor)
        return held
