"""Makes pairs and triples of endpoints of every filling, for the conformance suite."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from partita.errors import RunError
from partita.execution import Link
from partita.fabric import (
    Endpoint,
    MemoryFabric,
    ShapedEndpoint,
    ZenohEndpoint,
    ZenohOptions,
)
from partita.lab.ports import free_addresses

FILLINGS = ("memory", "memory-inline", "zenoh", "zenoh-local", "shaped-memory", "shaped-zenoh")
_SHAPE = Link("a", "b", 1e9, latency_s=0.001)
_TIMEOUT_S = 10.0


def make_endpoints(filling: str, names: tuple[str, ...]) -> list[Endpoint]:
    """Return one endpoint per name, all of one fabric."""
    if "zenoh" not in filling:
        fabric = MemoryFabric(inline=filling.endswith("inline"))
        endpoints: list[Endpoint] = [fabric.endpoint(name) for name in names]
    else:
        address, *_ = free_addresses(1)
        first = ZenohOptions(
            names[0], listen=(address,), local_sockets=filling.endswith("local"), heartbeat_s=0.2
        )
        endpoints = [ZenohEndpoint(first)]
        for name in names[1:]:
            own, *_ = free_addresses(1)
            options = ZenohOptions(
                name,
                listen=(own,),
                connect=(address,),
                local_sockets=first.local_sockets,
                heartbeat_s=0.2,
            )
            endpoints.append(ZenohEndpoint(options))
    if filling.startswith("shaped"):
        links = dict.fromkeys(names, _SHAPE)
        return [ShapedEndpoint(endpoint, links) for endpoint in endpoints]
    return endpoints


class Inbox:
    """Collects what an endpoint hears; waits for it with a limit."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.pieces: list[tuple[str, bytes, bytes]] = []
        self.notes: list[tuple[str, bytes]] = []
        self.seen: list[tuple[str, bool]] = []
        self.errors: list[RunError] = []
        self._changed = threading.Condition()
        endpoint.on_error(lambda error: self._add(self.errors, error))
        endpoint.on_notify(lambda source, body: self._add(self.notes, (source, body)))
        endpoint.on_data(
            lambda source, head, data: self._add(self.pieces, (source, head, bytes(data)))
        )

    def _add(self, items: list, item: object) -> None:  # type: ignore[type-arg]
        with self._changed:
            items.append(item)
            self._changed.notify_all()

    def watch(self, endpoint: Endpoint) -> None:
        """Collect comings and goings too."""
        endpoint.watch(lambda name, alive: self._add(self.seen, (name, alive)))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Return when ``condition`` holds; fail after ten seconds."""
        with self._changed:
            assert self._changed.wait_for(condition, _TIMEOUT_S), (self.seen, self.errors)


@contextmanager
def fabric(filling: str, *names: str) -> Iterator[tuple[list[Endpoint], list[Inbox]]]:
    """Yield announced endpoints with an inbox each, and close them; no thread may be left."""
    before = set(threading.enumerate())
    endpoints = make_endpoints(filling, names)
    inboxes = [Inbox(endpoint) for endpoint in endpoints]
    try:
        for endpoint in endpoints:
            endpoint.announce(endpoint.name.encode())
        yield endpoints, inboxes
    finally:
        for endpoint in endpoints:
            endpoint.close()
    deadline_s = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not left, f"threads left: {left}"
