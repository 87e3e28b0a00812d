"""From flags to a way to reach workers."""

from __future__ import annotations

import pytest

from partita.api import Access
from partita.cli.access import say_where
from partita.cluster import Cluster, Device

PLACED = Device("box", kind="raspberry-pi-4", address="tcp/127.0.0.1:7447")


@pytest.mark.parametrize(
    ("device", "access", "is_told"),
    [
        (Device("box", kind="raspberry-pi-4"), Access(), True),
        (Device("box", kind="raspberry-pi-4"), Access(workers=False), False),  # --lab
        (Device("box", kind="raspberry-pi-4"), Access(workers=True), False),
        (PLACED, Access(insecure=True), False),
    ],
)
def test_emulation_that_nobody_asked_for_is_said(
    device: Device, access: Access, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a file has no addresses, what is measured is this machine."""
    say_where(Cluster.of([device]), access)
    told = capsys.readouterr().err
    assert ("emulated on this machine" in told) == is_told
