"""Ports of a lab's workers, from when they are chosen until a worker listens."""

from __future__ import annotations

import socket

import pytest

from partita.lab.ports import free_addresses, hold_addresses


def test_a_held_port_is_given_to_nobody_but_who_is_told_of_it() -> None:
    """Neither it nor the one above can be bound by others; a worker's listener can have both."""
    with hold_addresses(2) as addresses:
        ports = [
            int(address.rpartition(":")[2]) + above for address in addresses for above in (0, 1)
        ]
        assert len(set(ports)) == 4
        assert not set(addresses) & set(free_addresses(20))
        for port in ports:
            with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)) as worker:  # takes the option
                assert worker.getsockname()[1] == port


def test_ports_are_free_afterwards() -> None:
    """What was held can be bound by anybody."""
    with hold_addresses(1) as (address,):
        pass
    with socket.socket() as anybody:
        anybody.bind(("127.0.0.1", int(address.rpartition(":")[2])))


def test_no_connection_and_no_later_choice_is_given_a_chosen_port() -> None:
    """Between its choice and its worker's start nobody else gets it, though nobody holds it."""
    chosen = [address for _ in range(40) for address in free_addresses(3)]
    assert len(set(chosen)) == len(chosen)
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = [server.getsockname()[1]]
        for _ in range(20):
            with socket.create_connection(server.getsockname()) as connection:
                given.append(connection.getsockname()[1])
    assert max(int(address.rpartition(":")[2]) + 1 for address in chosen) < min(given)
