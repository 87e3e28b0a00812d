"""Round trips between workers, without a network that takes time."""

from __future__ import annotations

import threading
import time

import pytest

from partita.errors import RunError
from partita.fabric import Credit, MemoryFabric, PieceHeader, decode_note
from partita.fabric.frames import decode_header
from partita.worker import probe
from partita.worker.messages import MessageFlow
from partita.worker.probe import PROBE_EPOCH, Prober


class Far:
    """The other worker, which does with each probe what the test wants."""

    def __init__(self, fabric: MemoryFabric, name: str = "b") -> None:
        self.headers: list[PieceHeader] = []
        self.sizes: list[int] = []
        endpoint = fabric.endpoint(name)
        endpoint.on_data(self.take)
        endpoint.announce(b"")

    def take(self, source: str, header: bytes, payload: memoryview) -> None:
        """Keep the probe and react to it."""
        self.headers.append(decode_header(source, header))
        self.sizes.append(len(payload))
        self.react(self.headers[-1])

    def react(self, header: PieceHeader) -> None:
        """Do nothing."""


@pytest.fixture
def fabric() -> MemoryFabric:
    """A fabric that delivers at once."""
    return MemoryFabric(inline=True)


def test_each_repeat_is_one_message_and_one_time(fabric: MemoryFabric) -> None:
    """Messages have the asked size, belong to no program, and are numbered."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    far.react = lambda header: prober.on_acknowledged(header.stream)  # type: ignore[method-assign]
    (times,) = prober.measure([MessageFlow("b", 100, 3)])
    assert len(times) == 3
    assert all(seconds >= 0 for seconds in times)
    assert far.sizes == [100] * 3
    assert {header.epoch for header in far.headers} == {PROBE_EPOCH}
    assert len({header.stream for header in far.headers}) == 3


def test_flows_go_at_the_same_time(fabric: MemoryFabric) -> None:
    """No flow waits for another: each one's first message is under way before any is answered."""
    prober, together = Prober(fabric.endpoint("a")), threading.Barrier(2, timeout=10)

    def react(header: PieceHeader) -> None:
        together.wait()
        prober.on_acknowledged(header.stream)

    for name in ("b", "c"):
        Far(fabric, name).react = react  # type: ignore[method-assign]
    times = prober.measure([MessageFlow("b", 10, 2), MessageFlow("c", 20, 2)])
    assert [len(seconds) for seconds in times] == [2, 2]


def test_the_loss_of_one_target_among_several_is_named(fabric: MemoryFabric) -> None:
    """Nothing more is sent to it, whatever the others do."""
    prober, lost, kept = Prober(fabric.endpoint("a")), Far(fabric, "b"), Far(fabric, "c")
    lost.react = lambda header: prober.on_lost("b")  # type: ignore[method-assign]
    kept.react = lambda header: prober.on_acknowledged(header.stream)  # type: ignore[method-assign]
    with pytest.raises(RunError, match="'b' was lost"):
        prober.measure([MessageFlow("c", 1, 3), MessageFlow("b", 1, 3)])
    assert lost.sizes == [1]


def test_an_arrival_is_acknowledged_under_its_number(fabric: MemoryFabric) -> None:
    """Two workers: what one sends the other confirms, and the sender's wait ends."""
    a, b = fabric.endpoint("a"), fabric.endpoint("b")
    sender, receiver = Prober(a), Prober(b)
    b.on_data(lambda source, header, _: receiver.acknowledge(source, decode_header(source, header)))

    def take(source: str, body: bytes) -> None:
        note = decode_note(source, body)
        assert isinstance(note, Credit)
        assert note.epoch == PROBE_EPOCH
        sender.on_acknowledged(note.stream)

    a.on_notify(take)
    b.announce(b"")
    assert len(sender.measure([MessageFlow("b", 0, 2)])[0]) == 2


def test_a_late_acknowledgement_of_an_earlier_probe_ends_nothing(
    fabric: MemoryFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the number that is waited for counts; without it the target is named."""
    monkeypatch.setattr(probe, "_ACK_TIMEOUT_S", 0.0)
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    far.react = lambda header: prober.on_acknowledged(header.stream - 1)  # type: ignore[method-assign]
    with pytest.raises(RunError, match="'b' did not receive a message of 5 bytes") as caught:
        prober.measure([MessageFlow("b", 5, 1)])
    assert caught.value.device == "b"


def test_a_loss_ends_the_wait_and_later_probes_at_once(fabric: MemoryFabric) -> None:
    """A worker that leaves while it is timed is named; it is not sent to until it is back."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    far.react = lambda header: prober.on_lost("b")  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(RunError, match="'b' was lost"):
            prober.measure([MessageFlow("b", 5, 1)])
    assert len(far.sizes) == 1
    prober.on_found("b")
    far.react = lambda header: prober.on_acknowledged(header.stream)  # type: ignore[method-assign]
    assert len(prober.measure([MessageFlow("b", 5, 2)])[0]) == 2


def test_the_loss_of_another_worker_is_no_matter(fabric: MemoryFabric) -> None:
    """Only the target's end ends a measurement."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)

    def react(header: PieceHeader) -> None:
        prober.on_lost("c")
        prober.on_acknowledged(header.stream)

    far.react = react  # type: ignore[method-assign]
    assert len(prober.measure([MessageFlow("b", 5, 2)])[0]) == 2


def test_a_ghost_is_named(fabric: MemoryFabric, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not come is named, one that has left at once; nothing is sent."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    prober.on_lost("left")
    with pytest.raises(RunError, match=r"'left' cannot be reached.*alive are: b"):
        prober.measure([MessageFlow("left", 5, 1)])
    monkeypatch.setattr(probe, "_MEET_TIMEOUT_S", 0.0)
    with pytest.raises(RunError, match=r"'ghost' cannot be reached.*alive are: b"):
        prober.measure([MessageFlow("ghost", 5, 1)])
    assert far.sizes == []


def test_a_worker_that_is_not_yet_seen_is_waited_for(
    fabric: MemoryFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers hear of each other only after the leader has heard of both."""
    endpoint = fabric.endpoint("a")
    prober, far = Prober(endpoint), Far(fabric)
    far.react = lambda header: prober.on_acknowledged(header.stream)  # type: ignore[method-assign]
    seen = iter([set(), {"b"}])
    monkeypatch.setattr(endpoint, "peers", lambda: next(seen))
    assert len(prober.measure([MessageFlow("b", 5, 2)])[0]) == 2


def test_only_two_leaders_measure_at_a_time(fabric: MemoryFabric) -> None:
    """One probe is under way and one waits; the third is refused, so that calls are not held up."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    second = threading.Thread(target=prober.measure, args=([MessageFlow("b", 2, 1)],))

    def react(header: PieceHeader) -> None:
        if far.sizes == [1]:
            second.start()
            while prober._waiting._value:
                time.sleep(0.001)
            with pytest.raises(RunError, match="'a' times 2 links already"):
                prober.measure([MessageFlow("b", 3, 1)])
        prober.on_acknowledged(header.stream)

    far.react = react  # type: ignore[method-assign]
    prober.measure([MessageFlow("b", 1, 1)])
    second.join(10)
    assert far.sizes == [1, 2]


def test_two_measurements_take_turns(fabric: MemoryFabric) -> None:
    """Two leaders may ask at the same time; each gets the times of its own messages."""
    prober, far = Prober(fabric.endpoint("a")), Far(fabric)
    second = threading.Thread(target=prober.measure, args=([MessageFlow("b", 2, 3)],))
    is_inside = threading.Event()

    def react(header: PieceHeader) -> None:
        if far.sizes == [1]:
            second.start()
            is_inside.wait(0.05)  # as long as the other one could send if nothing held it
        elif far.sizes[-1] == 2:
            is_inside.set()
        prober.on_acknowledged(header.stream)

    far.react = react  # type: ignore[method-assign]
    prober.measure([MessageFlow("b", 1, 3)])
    second.join(10)
    assert far.sizes == [1, 1, 1, 2, 2, 2]


def test_a_broken_connection_is_the_loss_of_its_other_end(
    fabric: MemoryFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that fails before the news of a loss says the same; other errors stay as they are."""
    endpoint = fabric.endpoint("a")
    prober = Prober(endpoint)
    fabric.endpoint("b").announce(b"")
    for device, expected in (("b", "'b' was lost"), ("a", "Endpoint 'a' is closed")):

        def refuse(*_: object, device: str = device) -> None:
            raise RunError("Endpoint 'a' is closed", device=device)

        monkeypatch.setattr(endpoint, "send", refuse)
        with pytest.raises(RunError, match=expected):
            prober.measure([MessageFlow("b", 10, 1)])
