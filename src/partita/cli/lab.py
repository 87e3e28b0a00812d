"""``partita lab``: unequal devices on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partita.cli.adapting import TimeScaleOpt
from partita.cli.flags import DebugOpt, JsonOpt

if TYPE_CHECKING:
    from partita.cluster import Cluster

#: How often the lab looks whether its workers are there.
_LOOK_S = 0.5
EXAMPLE = """\
[cluster]
name = "lab"
requester = "camera"              # where inputs come from and answers go

[[device]]
name = "camera"
kind = "this-machine"             # or a name of the catalogue, see 'partita doctor'
memory = "1 GB"
threads = 1

[[device]]
name = "box-1"
kind = "this-machine"
memory = "1 GB"
threads = 1

[[device]]
name = "box-2"
kind = "this-machine"
memory = "1 GB"
threads = 1

[[link]]
between = ["*", "*"]              # every pair, each direction
bandwidth = "200 Mbit/s"
latency = "2 ms"

[lab]                             # emulation on one machine; ignored by real workers
slow_down = { camera = 24, box-1 = 8, box-2 = 12 }
"""


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("lab")
    def lab(
        cluster: Annotated[
            Path | None, typer.Argument(metavar="[CLUSTER]", help="Cluster file (TOML).")
        ] = None,
        network: Annotated[
            str, typer.Option("--network", help="user, or netns (root); the file's by default.")
        ] = "",
        output: Annotated[
            Path | None,
            typer.Option("-o", "--output", help="Cluster file to write, with the addresses."),
        ] = None,
        time_scale: TimeScaleOpt = 1.0,
        example: Annotated[
            Path | None, typer.Option("--example", help="Write an example cluster file and stop.")
        ] = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Emulate a cluster: one worker per device with its slow-down and links, until Ctrl-C."""
        from partita.cli.adapting import scale_traces
        from partita.cli.output import Reply, check_output, print_reply, write_output
        from partita.cluster import load_cluster
        from partita.errors import InputError

        if example is not None:
            write_output(example, EXAMPLE.encode())
            reply = Reply({"file": str(example)}, [f"Written to {example}"])
            return print_reply(reply, as_json=json)
        if cluster is None:
            raise InputError("Give a cluster file, or --example FILE to write one.")
        if network not in ("", "user", "netns"):
            raise InputError(
                f"--network is '{network}', allowed: user, netns.", subject="--network"
            )
        check_output(output, cluster)
        return hold_lab(
            scale_traces(load_cluster(cluster), time_scale), network, output, as_json=json
        )


def hold_lab(cluster: Cluster, network: str, output: Path | None, *, as_json: bool) -> int:
    """Run a lab until a signal ends it; ``output`` tells other commands where its workers are."""
    from partita.cli.output import Reply, print_reply, say, write_output
    from partita.cluster import dump_cluster
    from partita.lab import LabOptions, start_lab
    from partita.report import draw_table
    from partita.report.tables import TableData

    with start_lab(cluster, LabOptions(network=network, name=cluster.name)) as running:
        rows = tuple(
            (
                device.name,
                f"{device.slow_down:g}x",
                str(running.processes[device.name].pid),
                running.addresses[device.name],
            )
            for device in cluster.devices
        )
        payload = {
            "cluster": cluster.name,
            "devices": [
                {"name": n, "slow_down": float(s[:-1]), "pid": int(p), "address": a}
                for n, s, p, a in rows
            ],
            "not_emulated": list(running.left_out),
        }
        columns = ("device", "slow-down", "pid", "address")
        table = draw_table(TableData(f"Lab '{cluster.name}'", columns, rows))
        if output is not None:
            write_output(output, dump_cluster(with_addresses(cluster, running.addresses)).encode())
        print_reply(Reply(payload, [table]), as_json=as_json)
        say("running; Ctrl-C ends it")
        return watch_workers(running.processes)


def watch_workers(processes: Mapping[str, Any]) -> int:
    """Say when a worker ends; return when none is left.

    Raises:
        RunError: All have ended.
    """
    import time

    from partita.cli.output import say
    from partita.errors import RunError

    left = dict(processes)
    while left:
        time.sleep(_LOOK_S)
        for name, process in list(left.items()):
            if process.poll() is not None:
                say(f"worker '{name}' has ended (exit code {process.returncode})")
                del left[name]
    raise RunError("All workers of the lab have ended.")


def with_addresses(cluster: Cluster, addresses: Mapping[str, str]) -> Cluster:
    """Return the cluster with the place of each worker."""
    from dataclasses import replace

    devices = tuple(replace(one, address=addresses[one.name]) for one in cluster.devices)
    return replace(cluster, devices=devices)
