"""Worker processes that several leaders use, by a cluster file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from partita.cluster import Cluster, Device, dump_cluster
from partita.lab import Lab, LabOptions, start_lab

NAMES = ("d0", "d1", "d2")


@pytest.fixture
def placed(tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """Three worker processes, and a cluster file that says where they are."""
    devices = [Device(name, kind="raspberry-pi-4") for name in NAMES]
    cluster = replace(Cluster.of(devices), name="garage")
    options = LabOptions(store=tmp_path / "store", name="garage", shaped=False)
    with start_lab(cluster, options) as lab:
        there = tuple(replace(d, address=lab.addresses[d.name]) for d in devices)
        path = tmp_path / "garage.toml"
        path.write_bytes(dump_cluster(replace(cluster, devices=there)).encode())
        yield lab, path
