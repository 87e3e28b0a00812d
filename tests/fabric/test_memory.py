"""The in-process filling: what tests of everything else rely on."""

from __future__ import annotations

import pytest

from partita.errors import ClusterError, RunError
from partita.fabric import MemoryFabric


@pytest.fixture
def fabric() -> MemoryFabric:
    """A fabric that delivers on the sender's thread."""
    return MemoryFabric(inline=True)


def test_a_name_is_had_once(fabric: MemoryFabric) -> None:
    """A second endpoint of a name would get the first one's pieces; after a close it is free."""
    first = fabric.endpoint("a")
    with pytest.raises(RunError, match="'a' is taken"):
        fabric.endpoint("a")
    with pytest.raises(ClusterError, match="cannot be used"):
        fabric.endpoint("a/b")
    first.close()
    fabric.endpoint("a")


def test_pieces_that_come_before_their_callback_are_kept(fabric: MemoryFabric) -> None:
    """A sender may be faster than its receiver's start: nothing is lost or reordered."""
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    seen: list[bytes] = []
    for number in range(3):
        a.send("b", b"%d" % number, b"")
    b.on_data(lambda source, header, payload: seen.append(header))
    a.send("b", b"3", b"")
    assert seen == [b"0", b"1", b"2", b"3"]


def test_a_payload_is_the_receivers_own(fabric: MemoryFabric) -> None:
    """The sender may write its memory again: what was sent does not change."""
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    seen: list[memoryview] = []
    b.on_data(lambda source, header, payload: seen.append(payload))
    memory = bytearray(b"before")
    a.send("b", b"", memory)
    memory[:] = b"after!"
    assert bytes(seen[0]) == b"before"


def test_a_cut_link_loses_everything_in_one_direction(fabric: MemoryFabric) -> None:
    """Pieces and notes vanish without an error, calls have no answer; the way back works."""
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    seen: list[str] = []
    for end in (a, b):
        end.on_data(lambda source, header, payload: seen.append(f"piece of {source}"))
        end.on_notify(lambda source, body: seen.append(f"note of {source}"))
        end.serve(lambda caller, method, body: b"yes")
    fabric.cut_link("a", "b")
    a.send("b", b"", b"")
    a.notify("b", b"")
    with pytest.raises(RunError, match="'b' did not answer 'hello' within 3 s"):
        a.call("b", "hello", b"", 3.0)
    b.send("a", b"", b"")
    b.notify("a", b"")
    assert b.call("a", "hello", b"", 3.0) == b"yes"
    assert seen == ["piece of b", "note of b"]


def test_a_killed_endpoint_is_unreachable_and_seen_to_go(fabric: MemoryFabric) -> None:
    """Its own sends fail, sends to it name who is alive, and each watcher hears of it once."""
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    seen: list[tuple[str, bool]] = []
    a.watch(lambda name, alive: seen.append((name, alive)))
    with pytest.raises(RunError, match="'b' cannot be reached"):
        a.info("b")
    b.announce(b"facts")
    assert a.info("b") == b"facts"
    fabric.kill("b")
    b.close()
    assert seen == [("b", True), ("b", False)]
    with pytest.raises(RunError, match=r"'b' cannot be reached.*alive are: none"):
        a.send("b", b"", b"")
    for use in (lambda: b.send("a", b"", b""), lambda: b.notify("a", b""), lambda: b.announce(b"")):
        with pytest.raises(RunError, match="'b' is closed"):
            use()


def test_a_call_to_an_endpoint_that_is_closing_is_an_error_of_the_run() -> None:
    """Between its last answer and its leaving no other kind of error comes out."""
    fabric = MemoryFabric()
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    b.serve(lambda caller, method, body: b"yes")
    assert b._calls is not None
    b._calls.shutdown()
    with pytest.raises(RunError, match="'b' cannot be reached"):
        a.call("b", "hello", b"", 3.0)
    a.close()
    b.close()
