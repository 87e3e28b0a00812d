"""Pieces that are damaged on a real network connection."""

from __future__ import annotations

import os
from typing import Any

import pytest

from partita.fabric import zenoh_data
from tests.conformance.fabrics import fabric


class Noisy:
    """A publisher that flips a bit in every third chunk, of the payload or of what is beside it."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self.count = 0

    @property
    def matching_status(self) -> Any:
        """Whether anybody listens."""
        return self._publisher.matching_status

    def put(self, data: bytes, attachment: bytes) -> None:
        """Pass on, right or wrong."""
        self.count += 1
        parts = [bytearray(data), bytearray(attachment)]
        if self.count % 3 == 0:
            damaged = parts[self.count % 2]
            if damaged:
                damaged[self.count * 7919 % len(damaged)] ^= 1 << self.count % 8
        self._publisher.put(bytes(parts[0]), attachment=bytes(parts[1]))


def test_damaged_chunks_are_sent_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every piece arrives once, whole and in order, whatever a third of its chunks became."""
    declare = zenoh_data.DataPlane._declare
    noisy: list[Noisy] = []

    def declare_noisy(plane: zenoh_data.DataPlane, target: str) -> Noisy:
        noisy.append(Noisy(declare(plane, target)))
        return noisy[-1]

    monkeypatch.setattr(zenoh_data.DataPlane, "_declare", declare_noisy)
    monkeypatch.setattr(zenoh_data, "_GAP_PAUSE_S", 0.02)
    sizes = (10, 300_000, 0, 70_000, 600_000, 1)
    sent = [(b"head %d" % number, os.urandom(size)) for number, size in enumerate(sizes)]
    with fabric("zenoh", "a", "b") as (ends, inboxes):
        for header, payload in sent:
            ends[0].send("b", header, payload)
        inboxes[1].wait(lambda: len(inboxes[1].pieces) == len(sent))
        assert [(header, data) for _, header, data in inboxes[1].pieces] == sent
        assert inboxes[1].errors == []
    assert "was damaged on its way" in caplog.text
    assert noisy[0].count > len(sizes) + 3
