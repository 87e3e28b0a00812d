"""Measuring the workers of a cluster, and the links between them."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from partita.api import open_endpoint
from partita.cli.access import read_access, say_where
from partita.cli.actions.links import draw_links, make_link, measure_links
from partita.cli.actions.ports import (
    describe_ports,
    draw_ports,
    find_ports,
    measure_ports,
    place_port,
)
from partita.cli.flags import AccessFlags
from partita.cli.output import Advance, Reply, check_output, progress_bar, say, write_output
from partita.cluster import Cluster, Device, Link, dump_cluster, load_cluster
from partita.errors import RunError
from partita.fabric import Endpoint
from partita.graph import Graph
from partita.leader.bench import WorkerBench
from partita.leader.worker_group import WorkerGroup
from partita.profile import MeasureOptions, Profile, measure_profile, save_profile
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_seconds
from partita.worker.messages import Info

#: Seconds that workers may take to appear.
_WAIT_S = 10.0


def profile_cluster(
    graph: Graph, path: Path, output: Path, how: tuple[MeasureOptions, AccessFlags]
) -> Reply:
    """Measure a model on every running worker, then links and ports; write what was measured.

    Args:
        graph: The model.
        path: Cluster file.
        output: Cluster file to write; the profiles lie beside it.
        how: How often, and how workers are reached.

    Raises:
        InputError: A file cannot be written.
        RunError: No worker is there, or one is lost.
    """
    options, access = how
    reach = read_access(access)
    cluster = load_cluster(path)
    check_output(output, path)
    files = {name: output.with_name(f"{output.stem}-{name}.json") for name in cluster.names}
    for place in files.values():
        check_output(place, path)
    say_where(cluster, reach)
    say("connecting to the workers")
    with open_endpoint(cluster, reach) as endpoint:
        there, missing = _find_workers(endpoint, cluster)
        group = WorkerGroup(endpoint, there)
        infos = group.greet()
        with progress_bar("profiling") as advance:
            profiles = _measure_all(graph, group, infos, (options, files, advance))
        figures = measure_links(endpoint, cluster, there)
        links = [make_link(cluster, link) for link in figures]
        ports = measure_ports(endpoint, there, links)
    for name, profile in profiles.items():
        save_profile(profile, files[name])
    named = _name_files(cluster, {name: files[name] for name in there}, output)
    measured = _place_links(named, links, find_ports(cluster, ports))
    write_output(output, dump_cluster(measured).encode())
    devices = [
        {"name": name, "sum_of_layers_s": profile.sum_of_layers_s, "file": str(files[name])}
        for name, profile in profiles.items()
    ]
    payload = {"model": graph.name, "devices": devices, "missing": missing, "links": figures}
    payload["ports"] = describe_ports(cluster, ports)
    shown: list[Any] = [_draw_devices(profiles), draw_links(figures)]
    if ports:
        shown.append(draw_ports(cluster, ports))
    if missing:
        shown.append(f"Not there, left as they were: {', '.join(missing)}")
    return Reply({**payload, "file": str(output)}, [*shown, f"Written to {output}"])


def _find_workers(endpoint: Endpoint, cluster: Cluster) -> tuple[list[str], list[str]]:
    """The devices whose workers run, and the others."""
    try:
        WorkerGroup(endpoint, cluster.names).wait(_WAIT_S)
    except RunError:
        if not set(cluster.names) & endpoint.peers():
            raise
    there = endpoint.peers()
    return [n for n in cluster.names if n in there], [n for n in cluster.names if n not in there]


def _measure_all(
    graph: Graph,
    group: WorkerGroup,
    infos: Mapping[str, Info],
    rest: tuple[MeasureOptions, Mapping[str, Path], Advance],
) -> dict[str, Profile]:
    """Every worker's profile: workers of one machine after each other, machines together."""
    options, files, advance = rest
    hosts: dict[str, list[str]] = defaultdict(list)
    for name, info in infos.items():
        hosts[info.host or name].append(name)
    count = _Counter(len(infos), advance)

    def measure_host(names: Sequence[str]) -> dict[str, Profile]:
        return {name: measure(name) for name in names}

    def measure(name: str) -> Profile:
        unfinished = files[name].with_name(files[name].name + ".unfinished")
        bench = WorkerBench(group, infos[name])
        try:
            own = replace(options, device=name, unfinished=unfinished)
            return measure_profile(graph, own, count.of(name), bench)
        finally:
            bench.close()

    with ThreadPoolExecutor(len(hosts), "profile") as pool:
        parts = list(pool.map(measure_host, hosts.values()))
    return {name: profile for part in parts for name, profile in part.items()}


class _Counter:
    """Progress of several devices on one bar."""

    def __init__(self, devices: int, advance: Advance) -> None:
        self._devices = devices
        self._advance = advance
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Callable[[int, int, str], None]:
        def advance(done: int, total: int, what: str) -> None:
            with self._lock:
                self._done[name] = done
                everything = self._devices * total
                self._advance(sum(self._done.values()), everything, f"{name}: {what}")

        return advance


def _name_files(cluster: Cluster, files: Mapping[str, Path], output: Path) -> Cluster:
    """The cluster with measured profiles."""

    def place(device: Device) -> Device:
        if device.name in files:
            return replace(device, profile=files[device.name].name)
        if device.profile is None:
            return device
        return replace(device, profile=os.path.relpath(device.profile, output.parent))

    strangers = cluster.strangers
    if strangers is not None:
        strangers = replace(strangers, device=place(strangers.device))
    devices = tuple(place(device) for device in cluster.devices)
    return replace(cluster, devices=devices, strangers=strangers)


def _place_links(cluster: Cluster, links: Sequence[Link], ports: Mapping[str, float]) -> Cluster:
    """The cluster with measured links and ports."""
    pairs = {link.pair for link in links}
    others = [link for link in cluster.links if link.pair not in pairs]
    devices = tuple(place_port(device, ports) for device in cluster.devices)
    return replace(cluster, devices=devices, links=(*links, *others))


def _draw_devices(profiles: Mapping[str, Profile]) -> Table:
    rows = []
    for name, profile in profiles.items():
        seconds = format_seconds(profile.sum_of_layers_s)
        rows.append((name, profile.machine, profile.engine, str(profile.threads), seconds))
    columns = ("device", "machine", "engine", "threads", "sum of layers")
    return draw_table(TableData("Devices", columns, tuple(rows)))
