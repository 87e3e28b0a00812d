"""Emulating unequal devices on one machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

from partita.cli.output import Reply, print_reply, say, write_output
from partita.cluster import dump_cluster, load_cluster
from partita.errors import RunError
from partita.lab import LabOptions, start_lab
from partita.report import draw_table
from partita.report.tables import TableData

#: How often the lab looks whether its workers are there.
_LOOK_S = 0.5


def hold_lab(
    path: Path, time_scale: float, network: str, output: Path | None, *, as_json: bool
) -> int:
    """Run a cluster's workers on this machine until a signal ends them.

    Args:
        time_scale: Its traces run so many times as fast.
        network: ``user`` or ``netns``; empty for what the file says.
        output: Cluster file to write, which tells other commands where the workers are.

    Raises:
        RunError: A worker did not start, or all have ended.
    """
    cluster = load_cluster(path).with_time_scale(time_scale)
    with start_lab(cluster, LabOptions(network=network, name=cluster.name)) as lab:
        devices = [
            {
                "name": device.name,
                "slow_down": device.slow_down,
                "pid": lab.processes[device.name].pid,
                "address": lab.addresses[device.name],
            }
            for device in cluster.devices
        ]
        rows = tuple(
            (str(d["name"]), f"{d['slow_down']:g}x", str(d["pid"]), str(d["address"]))
            for d in devices
        )
        columns = ("device", "slow-down", "pid", "address")
        table = draw_table(TableData(f"Lab '{cluster.name}'", columns, rows))
        if output is not None:
            placed = tuple(replace(d, address=lab.addresses[d.name]) for d in cluster.devices)
            write_output(output, dump_cluster(replace(cluster, devices=placed)).encode())
        payload = {"cluster": cluster.name, "devices": devices, "not_emulated": list(lab.left_out)}
        print_reply(Reply(payload, [table]), as_json=as_json)
        say("running; Ctrl-C ends it")
        watch_workers(lab.processes)
    raise RunError("All workers of the lab have ended.")


def watch_workers(processes: Mapping[str, Popen[bytes]]) -> None:
    """Say when a worker ends; return when none is left."""
    left = dict(processes)
    while left:
        time.sleep(_LOOK_S)
        for name, process in list(left.items()):
            if process.poll() is not None:
                say(f"worker '{name}' has ended (exit code {process.returncode})")
                del left[name]
