"""Notes over Zenoh."""

from __future__ import annotations

import threading

from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.lab.ports import free_addresses
from tests.conformance.fabrics import Inbox


def test_first_note_waits_for_who_is_coming() -> None:
    """A note to a process that the control plane has not met yet arrives when it has."""
    first = ZenohOptions("a", listen=tuple(free_addresses(1)))
    a = ZenohEndpoint(first)
    sender = threading.Thread(target=lambda: a.notify("b", b"early"))
    sender.start()
    b = ZenohEndpoint(ZenohOptions("b", connect=first.listen))
    try:
        inbox = Inbox(b)
        b.announce(b"")
        inbox.wait(lambda: inbox.notes == [("a", b"early")])
    finally:
        sender.join()
        b.close()
        a.close()
