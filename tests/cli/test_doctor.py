"""``partita doctor --cluster`` tells apart why workers are not ready."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from partita.cli.actions import ask_workers
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.lab.ports import free_addresses
from partita.version import VERSION
from partita.worker import Worker, WorkerOptions
from partita.worker.serve import make_parts
from tests.cli.conftest import Ask

NAMES = ("good", "old", "strayed", "gone")


def _write_cluster(path: Path, addresses: dict[str, str]) -> None:
    text = '[cluster]\nname = "garage"\nrequester = "good"\n'
    for name, address in addresses.items():
        text += f'\n[[device]]\nname = "{name}"\nkind = "jetson-nano"\n'
        text += f'address = "{address}"\n' if address else ""
    text += '\n[[link]]\nbetween = ["*", "*"]\nbandwidth = "1 Gbit/s"\nlatency = "1 ms"\n'
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Addresses of a good worker, an old one, one of another cluster and none."""
    monkeypatch.setattr(ask_workers, "_WAIT_S", 1.0)
    addresses = dict(zip(NAMES, free_addresses(len(NAMES)), strict=True))
    with contextlib.ExitStack() as stack:
        for name, cluster, version in (
            ("good", "garage", VERSION),
            ("old", "garage", "0.0.1"),
            ("strayed", "barn", VERSION),
        ):
            network = ZenohOptions(name, cluster, listen=(addresses[name],))
            options = WorkerOptions(
                network, store=str(tmp_path / f"store-{name}"), threads=1, version=version
            )
            endpoint = ZenohEndpoint(network)
            stack.callback(endpoint.close)
            worker = Worker(endpoint, make_parts(options))
            stack.callback(worker.close)
            worker.start()
        yield addresses


def test_each_worker_has_its_own_line(ask: Ask, folder: Path, workers: dict[str, str]) -> None:
    """One that is old, in another cluster or gone hides none of the others."""
    _write_cluster(folder / "garage.toml", workers)
    done = ask("doctor", "--cluster", "garage.toml", "--json")
    assert done.code == 4
    told = {worker["name"]: worker for worker in done.reply["workers"]}
    assert {name: worker["state"] for name, worker in told.items()} == {
        "good": "ready",
        "old": "other version",
        "strayed": "other cluster",
        "gone": "nobody listens",
    }
    assert told["good"].keys() == {"name", "state", "providers"}
    assert told["old"]["version"] == "0.0.1"
    assert "0.0.1" in told["old"]["why"]
    assert VERSION in told["old"]["why"]
    assert told["strayed"]["cluster"] == "barn"
    assert "(data)" in told["gone"]["why"]
    lines = ask("doctor", "--cluster", "garage.toml").out.splitlines()
    assert any("worker strayed" in line and "other cluster: " in line for line in lines)


def test_a_cluster_whose_workers_are_ready_is_well(
    ask: Ask, folder: Path, workers: dict[str, str]
) -> None:
    """Exit code 0 where nothing is wrong."""
    _write_cluster(folder / "garage.toml", {"good": workers["good"]})
    done = ask("doctor", "--cluster", "garage.toml", "--json")
    assert (done.code, [worker["state"] for worker in done.reply["workers"]]) == (0, ["ready"])
