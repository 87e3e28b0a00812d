"""Emulating unequal devices on one machine, or having Ray place them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partita.cli.access import check_engine
from partita.cli.flags import AccessFlags
from partita.cli.output import Reply, print_reply, say, write_output
from partita.cluster import Cluster, dump_cluster, load_cluster
from partita.errors import RunError
from partita.lab import Lab, LabOptions, start_lab
from partita.lab.on_ray import RayFleet, RayOptions, place_on_ray
from partita.report import draw_table
from partita.report.tables import TableData

#: How often the lab looks whether its workers are there.
_LOOK_S = 0.5
_LINKS = "links: between nodes of Ray they are what the network is"


@dataclass(frozen=True)
class HoldOptions:
    """How a lab is held.

    Attributes:
        time_scale: Traces run so many times as fast.
        network: ``user`` or ``netns``; empty for what the file says.
        restart_s: Seconds after which a worker that has ended is started again; None for never.
    """

    time_scale: float
    network: str
    restart_s: float | None


def hold_lab(path: Path, options: HoldOptions, output: Path | None, *, as_json: bool) -> int:
    """Run a cluster's workers on this machine until a signal ends them.

    Args:
        output: Cluster file to write, which tells other commands where the workers are.

    Raises:
        RunError: A worker did not start, or all have ended for good.
    """
    cluster = load_cluster(path).with_time_scale(options.time_scale)
    with start_lab(cluster, LabOptions(network=options.network, name=cluster.name)) as lab:
        placed = tuple(replace(d, address=lab.addresses[d.name]) for d in cluster.devices)
        pids = {name: process.pid for name, process in lab.processes.items()}
        reply = _describe(replace(cluster, devices=placed), pids, lab.left_out)
        _announce(reply, replace(cluster, devices=placed), output, as_json=as_json)
        watch_workers(lab, options.restart_s)
    raise RunError("All workers of the lab have ended.")


def hold_on_ray(path: Path, output: Path | None, flags: AccessFlags, *, as_json: bool) -> int:
    """Run a cluster's workers on the nodes of Ray until a signal ends them.

    Args:
        output: Cluster file to write, which tells other commands where the workers are.

    Raises:
        InputError: Flags contradict each other.
        ClusterError: A join file is missing, or needed.
        RunError: There is no Ray, or a worker did not start.
    """
    check_engine(flags)
    options = RayOptions(flags.site, flags.insecure, is_emulated=True)
    with place_on_ray(load_cluster(path), options) as fleet:
        pids = fleet.pids()
        reply = _describe(fleet.cluster, pids, [_LINKS])
        _announce(reply, fleet.cluster, output, as_json=as_json)
        _watch_fleet(fleet, pids)
    return 0


def _describe(cluster: Cluster, pids: Mapping[str, int | None], left_out: Sequence[str]) -> Reply:
    """Who runs where."""
    devices: list[dict[str, Any]] = [
        {
            "name": device.name,
            "slow_down": device.slow_down,
            "pid": pids[device.name],
            "address": device.address,
        }
        for device in cluster.devices
    ]
    rows = tuple(
        (str(d["name"]), f"{d['slow_down']:g}x", str(d["pid"]), str(d["address"])) for d in devices
    )
    columns = ("device", "slow-down", "pid", "address")
    table = draw_table(TableData(f"Lab '{cluster.name}'", columns, rows))
    payload = {"cluster": cluster.name, "devices": devices, "not_emulated": list(left_out)}
    return Reply(payload, [table])


def _announce(reply: Reply, cluster: Cluster, output: Path | None, *, as_json: bool) -> None:
    """Tell where the workers are, and write it down."""
    if output is not None:
        write_output(output, dump_cluster(cluster).encode())
    print_reply(reply, as_json=as_json)
    say("running; Ctrl-C ends it")


def watch_workers(lab: Lab, restart_s: float | None = None) -> None:
    """Say when a worker ends, and start it again where that is wanted; return when none is left."""
    left, due_s = set(lab.processes), dict[str, float]()
    what = "--restart SECONDS would start it again"
    if restart_s is not None:
        what = f"it is started again in {restart_s:g} s"
    while left or due_s:
        time.sleep(_LOOK_S)
        now_s = time.monotonic()
        for name in sorted(left):
            if (code := lab.processes[name].poll()) is not None:
                say(f"worker '{name}' has ended (exit code {code}); {what}")
                left.remove(name)
                if restart_s is not None:
                    due_s[name] = now_s + restart_s
        for name in [name for name, at_s in due_s.items() if at_s <= now_s]:
            del due_s[name]
            lab.restart(name)
            left.add(name)
            say(f"worker '{name}' runs again, as process {lab.processes[name].pid}")


def _watch_fleet(fleet: RayFleet, pids: Mapping[str, int | None]) -> None:
    """Say when a worker ends, and when Ray has started it again; never return."""
    known = dict(pids)
    while True:
        time.sleep(_LOOK_S)
        for name, pid in fleet.pids().items():
            if pid != known[name]:
                now = "has ended; Ray starts it again" if pid is None else f"runs as process {pid}"
                say(f"worker '{name}' {now}")
                known[name] = pid
