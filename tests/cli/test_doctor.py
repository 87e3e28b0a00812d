"""``partita doctor --cluster`` tells apart why workers are not ready."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from partita.cli.actions import ask_workers
from partita.errors import RunError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.host import time_of_day_s
from partita.lab.ports import free_addresses
from partita.version import VERSION
from partita.worker import Worker, WorkerOptions, control
from partita.worker.messages import Disk, MessageFlow
from partita.worker.probe import Prober
from partita.worker.serve import make_parts
from partita.worker.store import Store
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
        for name, cluster, versions in (
            ("good", "garage", {}),
            ("old", "garage", {"version": "0.0.1", "protocol": 0}),
            ("strayed", "barn", {}),
        ):
            network = ZenohOptions(name, cluster, listen=(addresses[name],))
            stack.enter_context(_serve(network, tmp_path / f"store-{name}", **versions))
        yield addresses


@contextlib.contextmanager
def _serve(network: ZenohOptions, store: Path, **versions: Any) -> Iterator[None]:
    """A worker in this process."""
    options = WorkerOptions(network, store=str(store), threads=1, **versions)
    with contextlib.ExitStack() as stack:
        endpoint = ZenohEndpoint(network)
        stack.callback(endpoint.close)
        worker = Worker(endpoint, make_parts(options))
        stack.callback(worker.close)
        worker.start()
        yield


def _ask_states(ask: Ask, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
    """What doctor says of each worker; exit code 4 exactly where one is not ready."""
    _write_cluster(Path("garage.toml"), addresses)
    done = ask("doctor", "--cluster", "garage.toml", "--json", "--insecure")
    told = {worker["name"]: worker for worker in done.reply["workers"]}
    is_well = all(worker["state"] == "ready" for worker in told.values())
    assert done.code == (0 if is_well else 4)
    return told


def test_wrong_addresses_of_workers_that_know_each_other(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    """A run after their restart would miss them: the address itself is tried."""
    good, box, free = free_addresses(3)
    host, _, port = box.rpartition(":")
    with (
        _serve(ZenohOptions("good", "garage", listen=(good,)), tmp_path / "store-good"),
        _serve(ZenohOptions("box", "garage", (box,), (good,)), tmp_path / "store-box"),
    ):
        assert {w["state"] for w in _ask_states(ask, {"good": good, "box": box}).values()} == {
            "ready"
        }
        for wrong, why in (
            (free, "Connection refused"),
            (f"{host}:{int(port) + 1}", "(control)"),
            ("tcp/nobody.invalid:7447", "'nobody.invalid' is unknown"),
        ):
            told = _ask_states(ask, {"good": good, "box": wrong})
            assert (told["good"]["state"], told["box"]["state"]) == ("ready", "other address")
            assert why in told["box"]["why"]
            assert f"'box' is at {box} on host" in told["box"]["why"]
        told = _ask_states(ask, {"good": box, "box": good})
        assert {worker["state"] for worker in told.values()} == {"other address"}
        assert f"the worker at {box} is called 'box'" in told["good"]["why"]


def test_two_workers_of_one_name(ask: Ask, folder: Path, tmp_path: Path) -> None:
    """Neither is ready, and both places are said."""
    good, first, second = free_addresses(3)
    with (
        _serve(ZenohOptions("good", "garage", listen=(good,)), tmp_path / "store-good"),
        _serve(ZenohOptions("nano", "garage", (first,)), tmp_path / "store-first"),
        _serve(ZenohOptions("nano", "garage", (second,), (good,)), tmp_path / "store-second"),
    ):
        told = _ask_states(ask, {"good": good, "nano": first})
    assert (told["good"]["state"], told["nano"]["state"]) == ("ready", "two of one name")
    assert first in told["nano"]["why"]
    assert second in told["nano"]["why"]


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
    assert "CPUExecutionProvider" in told["good"]["providers"]
    assert "why" not in told["good"]
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


def test_what_a_ready_worker_tells(
    ask: Ask, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version, store, disk and clock; of a clock that is off and a disk that is full the words."""
    (address,) = free_addresses(1)
    _write_cluster(folder / "garage.toml", {"good": address})
    with _serve(ZenohOptions("good", "garage", listen=(address,)), tmp_path / "store"):
        (told,) = ask("doctor", "--cluster", "garage.toml", "--json").reply["workers"]
        assert told["version"] == VERSION
        assert (told["store_bytes"], told["quota_bytes"]) == (0, 4 * 10**9)
        assert told["disk_free_bytes"] > 0
        assert abs(told["clock_ahead_s"]) < 60
        assert told["warnings"] == []
        monkeypatch.setattr(control, "time_of_day_s", lambda: time_of_day_s() - 86400)
        monkeypatch.setattr(Store, "measure_disk", lambda self: Disk(0, 4 * 10**9, 10**6))
        done = ask("doctor", "--cluster", "garage.toml", "--json")
    assert done.code == 0
    disk, clock = done.reply["workers"][0]["warnings"]
    assert disk.startswith("its disk has 1 MB left, its store may want 4 GB more")
    assert "behind this machine's" in clock


def test_a_worker_of_another_version_and_this_protocol_is_ready(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    """It can be used; that it is of another version is told beside."""
    (address,) = free_addresses(1)
    _write_cluster(folder / "garage.toml", {"good": address})
    network = ZenohOptions("good", "garage", listen=(address,))
    with _serve(network, tmp_path / "store", version="0.2.0"):
        done = ask("doctor", "--cluster", "garage.toml", "--json")
    (told,) = done.reply["workers"]
    assert (done.code, told["state"], told["version"]) == (0, "ready", "0.2.0")
    (warning,) = told["warnings"]
    assert f"than this machine's {VERSION}, of the same protocol" in warning


def test_an_earlier_build_tells_neither_disk_nor_time(
    ask: Ask, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not told is not shown as zero, nor warned of."""
    (address,) = free_addresses(1)
    _write_cluster(folder / "garage.toml", {"good": address})
    monkeypatch.setattr(control, "time_of_day_s", lambda: 0.0)
    monkeypatch.setattr(Store, "measure_disk", lambda self: Disk())
    with _serve(ZenohOptions("good", "garage", listen=(address,)), tmp_path / "store"):
        (told,) = ask("doctor", "--cluster", "garage.toml", "--json").reply["workers"]
        shown = ask("doctor", "--cluster", "garage.toml").out
    assert (told["clock_ahead_s"], told["warnings"]) == (None, [])
    assert "clock" not in shown
    assert "0 B" not in shown


def test_every_link_is_tried(
    ask: Ask, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round trips of those that work; of one that does not the reason, and exit code 4."""
    first, second = free_addresses(2)
    _write_cluster(folder / "garage.toml", {"good": first, "box": second})
    with (
        _serve(ZenohOptions("good", "garage", (first,), (second,)), tmp_path / "a"),
        _serve(ZenohOptions("box", "garage", (second,), (first,)), tmp_path / "b"),
    ):
        done = ask("doctor", "--cluster", "garage.toml", "--json")
        assert done.code == 0
        links = done.reply["links"]
        assert [(link["from"], link["to"]) for link in links] == [("good", "box"), ("box", "good")]
        assert all(link["round_trip_s"] > 0 for link in links)
        assert "2 of 2 work" in ask("doctor", "--cluster", "garage.toml").out
        whole = Prober.measure

        def cut(self: Prober, flows: Sequence[MessageFlow]) -> object:
            if flows[0].target == "box":
                raise RunError("no way to 'box'")
            return whole(self, flows)

        monkeypatch.setattr(Prober, "measure", cut)
        done = ask("doctor", "--cluster", "garage.toml", "--json")
        assert done.code == 4
        broken, sound = done.reply["links"]
        assert "no way to 'box'" in broken["why"]
        assert "why" not in sound
