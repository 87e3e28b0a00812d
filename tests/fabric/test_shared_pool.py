"""Rings of shared memory, both ends in one process."""

from __future__ import annotations

import os

import pytest

from partita.fabric.shared_pool import SharedRing, SharedRings, Ticket


def test_chunks_come_back_and_room_is_used_again() -> None:
    """Far more than the ring holds passes through it, in any sizes, byte for byte."""
    ring, rings = SharedRing(10_000), SharedRings()
    for number in range(300):
        data = os.urandom(1 + number * 37 % 4000)
        ticket = ring.lend(data)
        assert ticket is not None
        assert bytes(rings.read(ticket)) == data
    rings.close()
    ring.close()


def test_unread_chunks_are_never_overwritten() -> None:
    """Where the reader does not read, there is no room; where it reads on, there is again."""
    ring, rings = SharedRing(10_000), SharedRings()
    tickets = [ring.lend(bytes([k]) * 3000) for k in range(3)]
    assert ring.lend(b"x" * 3000) is None
    for k, ticket in enumerate(tickets):
        assert ticket is not None
        assert bytes(rings.read(ticket)) == bytes([k]) * 3000
    assert ring.lend(b"x" * 3000) is not None
    rings.close()
    ring.close()


def test_a_slow_reader_does_not_stop_an_empty_ring_from_beginning_anew() -> None:
    """An empty ring begins at its start; the room before the jump counts as free."""
    ring, rings = SharedRing(10_000), SharedRings()
    for size in (6000, 6000, 9000, 10_000):
        ticket = ring.lend(b"y" * size)
        assert ticket is not None
        assert ticket.offset == 0
        assert len(rings.read(ticket)) == size
    rings.close()
    ring.close()


@pytest.mark.parametrize(
    "ticket",
    [
        Ticket(os.getpid(), 0, 100, 0, 10, 10),
        Ticket(os.getpid(), 10**6, 100, 0, 10, 10),
        Ticket(2**22 + 1, 3, 100, 0, 10, 10),
    ],
)
def test_nothing_but_rings_is_opened(ticket: Ticket) -> None:
    """A ticket that names another file, or none, is refused."""
    with pytest.raises(ValueError, match="ring"):
        SharedRings().read(ticket)


def test_tickets_that_leave_their_ring_are_refused() -> None:
    """Lying offsets and sizes never read beyond the ring."""
    ring, rings = SharedRing(10_000), SharedRings()
    ticket = ring.lend(b"z" * 100)
    assert ticket is not None
    for offset, length, size in ((9_990, 100, 10_000), (-5, 10, 10_000), (0, 20_000, 10**6)):
        wrong = Ticket(ticket.process, ticket.file, size, offset, length, ticket.written)
        with pytest.raises(ValueError, match="ring"):
            rings.read(wrong)
    rings.close()
    ring.close()
