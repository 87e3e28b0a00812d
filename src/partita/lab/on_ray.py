"""Workers as actors of Ray, which places and supervises them; all data go over the fabric as ever.

One actor per device, on a node that offers the device's own resource. It holds one worker process
and ends with it, so that Ray starts both again; the worker ends with its actor, as its standard
input does then.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from partita.cluster import Cluster, Device
from partita.errors import ClusterError, RunError, first_line
from partita.fabric import ZenohOptions, check_network
from partita.fabric.join import read_join
from partita.fabric.members import secure_address
from partita.fabric.zenoh_options import split_address
from partita.lab.folder import open_folder
from partita.lab.processes import last_words, spawn, terminate_as_exit
from partita.worker import WorkerOptions
from partita.worker.serve import read_options

_LOG = logging.getLogger(__name__)

#: Data and control of a node's first device; the next one has the two ports above.
_PORT, _PORTS_EACH = 7447, 2
#: Ray starts a Python for the actor, which imports, and starts another one.
_PLACE_S = 60.0
_READY_S = 30.0
#: Between the end of a worker and its next start, so that one that cannot start is no busy loop.
_PAUSE_S = 1.0
_POLL_S = 0.02
#: An actor answers within milliseconds, but Ray on a busy machine does not.
_ASK_S = 5.0
#: Longest wait for a connection to it, and until it answers there.
_REACH_S, _CONNECT_S = 5.0, 30.0


@dataclass(frozen=True)
class RayOptions:
    """How workers are placed.

    Attributes:
        site: Folder from ``partita keys init``, whose join files they get; None for none.
        insecure: Allow addresses beyond this machine without credentials.
        is_emulated: Whether devices are as slow as the cluster file's lab says.
    """

    site: Path | None = None
    insecure: bool = False
    is_emulated: bool = False


class Node(NamedTuple):
    """A machine of Ray: where others reach it, and the names of what it offers."""

    host: str
    resources: frozenset[str]


def resource_of(device: str) -> str:
    """What the node of a device offers: ``ray start --resources '{"partita/nano": 1}'``."""
    return f"partita/{device}"


@contextlib.contextmanager
def place_on_ray(cluster: Cluster, options: RayOptions) -> Iterator[RayFleet]:
    """Run a worker per device on the nodes of Ray, and yield when all are there.

    Ray is the one that ``RAY_ADDRESS`` names, or that runs on this machine. The workers end with
    the context, and with this process.

    Raises:
        ClusterError: A join file is missing, or addresses are exposed without one.
        RunError: There is no Ray, no node for a device, or a worker did not start.
    """
    with connect_to_ray() as ray, contextlib.ExitStack() as stack:
        nodes = [
            Node(node["NodeManagerAddress"], frozenset(node["Resources"]))
            for node in ray.nodes()
            if node["Alive"]
        ]
        fleet = RayFleet(ray, cluster)
        stack.callback(fleet.end)
        fleet.start(plan_workers(cluster, nodes, options))
        yield fleet


@contextlib.contextmanager
def connect_to_ray() -> Iterator[Any]:
    """The library, connected; by the caller already, or as long as the context.

    Raises:
        RunError: There is no Ray.
    """
    import ray  # an extra, and slow to load

    if ray.is_initialized():
        yield ray
        return
    from ray._private import worker

    try:
        _reach(os.environ.get("RAY_ADDRESS", ""))
        _init(ray)
    except (OSError, RuntimeError, ValueError) as error:
        raise RunError(
            f"Ray is not reached: {first_line(error)}. Start it with 'ray start --head', or let"
            " RAY_ADDRESS name one that runs."
        ) from error
    # It prints on stdout what befalls actors, beside the reply, and has no option for that.
    worker.print_to_stdstream = _log_lines
    try:
        with terminate_as_exit():  # of its own handlers SIGTERM aborts
            yield ray
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raise where nobody listens at an address of Ray's, which itself waits for it without end.

    Args:
        address: ``HOST:PORT`` or ``ray://HOST:PORT``; others Ray finds itself, or refuses.

    Raises:
        ConnectionError: Nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65536):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise ConnectionError(f"nobody answers at RAY_ADDRESS {address}: {why}") from error


def _init(ray: Any) -> None:
    """Connect to the Ray that is named or found.

    Where something listens that is no Ray, or the one that was found is gone, it waits without end:
    in a thread, which is left behind then.

    Raises:
        ConnectionError: There is none, or it does not answer.
    """
    failures = list[BaseException]()

    def connect() -> None:
        try:
            ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        except BaseException as error:  # raised where it is waited for
            failures.append(error)

    thread = threading.Thread(target=connect, name="ray/init", daemon=True)
    thread.start()
    thread.join(_CONNECT_S)
    if failures:
        raise failures[0]
    if thread.is_alive():
        named = os.environ.get("RAY_ADDRESS")
        where = f"at RAY_ADDRESS {named}" if named else "where Ray ran last"
        raise ConnectionError(f"no Ray answers {where} within {_CONNECT_S:g} s")


def _log_lines(data: Mapping[str, Any], **_: Any) -> None:
    for line in data["lines"]:
        _LOG.warning("Ray: %s", line.partition(". ")[0])


def plan_workers(
    cluster: Cluster, nodes: Sequence[Node], options: RayOptions
) -> dict[str, WorkerOptions]:
    """The options of each device's worker.

    Raises:
        ClusterError: A join file is missing, or not for this cluster; or addresses are exposed.
        RunError: No node offers a device's resource.
    """
    addresses = assign_addresses(cluster, nodes, is_secure=options.site is not None)
    return {
        device.name: WorkerOptions(
            network=_join(cluster, device.name, addresses, options),
            memory_limit_bytes=device.memory_bytes,
            threads=device.threads,
            providers=(device.provider,),
            slow_down=device.slow_down if options.is_emulated else 1.0,
            endpoint=device.endpoint or "",
        )
        for device in cluster.devices
    }


def assign_addresses(cluster: Cluster, nodes: Sequence[Node], *, is_secure: bool) -> dict[str, str]:
    """Where workers listen: at addresses of the cluster file, else at their nodes' from 7447 on.

    Raises:
        RunError: No node offers a device's resource.
    """
    told = {device.name: device.address for device in cluster.devices if device.address}
    taken = {address.partition("/")[2] for address in told.values()}
    addresses: dict[str, str] = {}
    for device in cluster.devices:
        host = _find_host(device, nodes)
        places = (f"{host}:{port}" for port in count(_PORT, _PORTS_EACH))
        place = next(place for place in places if place not in taken)
        address = told.get(device.name, f"tcp/{place}")
        taken.add(address.partition("/")[2])
        addresses[device.name] = secure_address(address) if is_secure else address
    return addresses


def _find_host(device: Device, nodes: Sequence[Node]) -> str:
    wanted = resource_of(device.name)
    host = next((node.host for node in nodes if wanted in node.resources), None)
    if host is None:
        offers = sorted({n for node in nodes for n in node.resources if n[:8] == "partita/"})
        offered = ", ".join(map(repr, offers)) or "none of its kind"
        raise RunError(
            f"No node of Ray is device {device.name!r}: none offers the resource {wanted!r},"
            f" offered are {offered}. Start one with ray start --resources '{{\"{wanted}\": 1}}'.",
            device=device.name,
        )
    return f"[{host}]" if ":" in host else host


def _join(
    cluster: Cluster, name: str, addresses: Mapping[str, str], options: RayOptions
) -> ZenohOptions:
    """How a worker joins.

    Raises:
        ClusterError: Its join file is missing or for another cluster, or needed.
    """
    network = ZenohOptions(
        name,
        cluster.name,
        listen=(addresses[name],),
        connect=tuple(address for other, address in addresses.items() if other != name),
        role="worker",
        insecure=options.insecure,
    )
    if options.site is not None:
        path = options.site / f"{name}.join"
        join = read_join(path)
        if (join.cluster, join.name) != (cluster.name, name):
            raise ClusterError(
                f"Join file '{path}' is of {join.name!r} in cluster {join.cluster!r}: needed is"
                f" that of {name!r} in {cluster.name!r}.",
                subject=str(path),
            )
        network = join.apply(network, str(path))
    check_network(network)
    return network


class RayFleet:
    """The workers that run on Ray.

    Attributes:
        cluster: With the addresses where they listen.
    """

    def __init__(self, ray: Any, cluster: Cluster) -> None:
        self.cluster = cluster
        self._ray = ray
        self._actors: dict[str, Any] = {}

    def start(self, workers: Mapping[str, WorkerOptions]) -> None:
        """Have all placed, and return when they listen.

        Raises:
            RunError: One is not placed, or does not start.
        """
        make = self._ray.remote(WorkerActor)
        for device in self.cluster.devices:
            # The resource alone says where; cores are the business of whoever offers it.
            placed = make.options(
                num_cpus=0, resources={resource_of(device.name): 1}, max_restarts=-1
            )
            line = msgspec.json.encode(workers[device.name])
            self._actors[device.name] = placed.remote(line, not device.address)
        devices = tuple(
            replace(device, address=address)
            for device, address in zip(self.cluster.devices, self._await_all(), strict=True)
        )
        self.cluster = replace(self.cluster, devices=devices)

    def _await_all(self) -> list[str]:
        """Where the workers listen, in order."""
        asked = {actor.await_ready.remote(): name for name, actor in self._actors.items()}
        found: dict[str, str] = {}
        deadline_s = time.monotonic() + _PLACE_S
        while len(found) < len(asked):
            left = [ref for ref, name in asked.items() if name not in found]
            wait_s = max(0.0, deadline_s - time.monotonic())
            ready, _ = self._ray.wait(left, timeout=wait_s)
            if not ready:
                name = asked[left[0]]
                raise RunError(
                    f"Ray started no worker for {name!r} within {_PLACE_S:g} s. Its resource"
                    f" {resource_of(name)!r} may be in use: 'ray status' says so.",
                    device=name,
                )
            found[asked[ready[0]]] = self._result(ready[0], asked[ready[0]])
        return [found[name] for name in self._actors]

    def _result(self, ref: Any, name: str) -> str:
        """Where a worker listens."""
        try:
            address, words = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            address, words = "", first_line(error)
        if not address:
            raise RunError(f"Worker {name!r} did not start on Ray: {words}", device=name)
        return str(address)

    def pids(self) -> dict[str, int | None]:
        """The workers' processes, each on its node; None where Ray starts one again."""
        found: dict[str, int | None] = {}
        for name, actor in self._actors.items():
            try:
                found[name] = self._ray.get(actor.pid.remote(), timeout=_ASK_S)
            except self._ray.exceptions.RayError:
                found[name] = None
        return found

    def end(self) -> None:
        """End the actors, and the workers with them."""
        for actor in self._actors.values():
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)


class WorkerActor:
    """What Ray runs on a node: it holds one worker process, and ends with it.

    Args:
        line: The :class:`~partita.worker.WorkerOptions` as JSON.
        is_found: Whether the worker listens at whichever node this is, with the port that
            ``line`` says.
    """

    def __init__(self, line: bytes, is_found: bool) -> None:
        options = read_options(line)
        if is_found:
            options = replace(options, network=_move_here(options.network))
        self._address = options.network.listen[0]
        self._name = options.network.name
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(open_folder())
        self._process = spawn(options, self._folder)
        threading.Thread(target=self._end_with_it, name="end", daemon=True).start()

    def await_ready(self) -> tuple[str, str]:
        """Where the worker listens, or nowhere and its last words."""
        port = split_address(self._address)[2]
        process = psutil.Process(self._process.pid)
        deadline_s = time.monotonic() + _READY_S
        while self._process.poll() is None:
            with contextlib.suppress(psutil.Error):
                if any(each.laddr[1:] == (port,) for each in process.net_connections("inet")):
                    return self._address, ""
            if time.monotonic() > deadline_s:
                return "", f"it does not listen after {_READY_S:g} s."
            time.sleep(_POLL_S)
        return "", last_words(self._folder, self._name)

    def pid(self) -> int:
        """The worker's process."""
        return self._process.pid

    def _end_with_it(self) -> None:
        self._process.wait()
        time.sleep(_PAUSE_S)
        os._exit(1)


def _move_here(network: ZenohOptions) -> ZenohOptions:
    import ray

    protocol, _, port = split_address(network.listen[0])
    host = ray.util.get_node_ip_address()
    host = f"[{host}]" if ":" in host else host
    return replace(network, listen=(f"{protocol}/{host}:{port}",))
