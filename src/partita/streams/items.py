"""What a stream is made of: inputs by name, decoded when they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import NoReturn, Protocol

from partita.errors import InputError
from partita.regions import Array

#: What an input holds: pixels (height x width x 3 bytes, RGB), the array itself, or arrays by name.
Content = Array | Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Item:
    """One input of a stream.

    Attributes:
        name: What its answer is written under.
        load: Decodes it; raises InputError where that cannot be.
    """

    name: str
    load: Callable[[], Content]


class Source(Protocol):
    """Where inputs come from.

    Attributes:
        is_live: Inputs come by themselves, wanted or not, as of a camera.
        waits: No input for a long time is no fault.
    """

    is_live: bool
    waits: bool

    def check(self) -> None:
        """Raise where nothing can be read, as far as that shows without waiting.

        Raises:
            InputError: Says what cannot be read, and why.
        """

    def items(self, written: Collection[str], stop: Event) -> Iterator[Item]:
        """An iterator over the inputs, in order.

        Args:
            written: Names that have answers already: these inputs are not wanted again.
            stop: Set when no more are wanted, so that nothing waits on.

        Raises:
            InputError: Nothing more can be read.
        """


def undecodable(name: str, words: str) -> InputError:
    """What is said of an input that cannot be decoded."""
    return InputError(f"Input '{name}' cannot be decoded: {words}.", subject=name)


def bad_item(name: str, words: str) -> Item:
    """An input that cannot be decoded."""

    def fail() -> NoReturn:
        raise undecodable(name, words)

    return Item(name, fail)


def ready_item(name: str, content: Content) -> Item:
    """An input that is decoded already."""
    return Item(name, lambda: content)


def name_frame(stream: str, number: int) -> str:
    """The name of a frame of a stream, whose names are in the order of numbers."""
    return f"{stream}#{number:06d}"


def first_number(stream: str, written: Collection[str]) -> int:
    """The number after that of the last frame that has an answer.

    >>> first_number("a.mp4", {"a.mp4#000003", "a.mp4#000011", "b.mp4#000020"})
    12
    """
    head = f"{stream}#"
    tails = (name[len(head) :] for name in written if name.startswith(head))
    return max((int(tail) for tail in tails if tail.isdecimal()), default=-1) + 1
