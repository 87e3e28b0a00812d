"""One worker process per device on this machine, with slow-downs and links as the cluster says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import msgspec

from partita.cluster import Cluster, Device, Link
from partita.errors import RunError
from partita.fabric import (
    WORKER_ENV,
    Endpoint,
    ShapedEndpoint,
    ZenohEndpoint,
    ZenohOptions,
)
from partita.lab.folder import open_folder
from partita.lab.netns import Namespaces, left_out, open_namespaces
from partita.lab.places import Place
from partita.lab.ports import hold_addresses
from partita.worker import WorkerOptions

#: Imports of all workers at once on two cores take some seconds; a machine under load needs more.
_START_S = 20.0
#: A worker under way ends its step first; then it is killed.
_END_S = 3.0
_POLL_S = 0.02
_MODULE = "partita.worker"


@dataclass(frozen=True)
class LabOptions:
    """The options of a lab.

    Attributes:
        threads: Of each worker; None takes the devices' own numbers.
        store: Directory of content, shared by the workers; the user's cache by default.
        shaped: Whether links are emulated; if not, they are as fast as this machine.
        local_sockets: Whether pieces go through sockets of this host; never in namespaces.
        name: Name under which other leaders find the workers; by default one of its own.
        network: ``user`` shapes links inside the processes; ``netns`` has the kernel do so, with a
            namespace per device (root only). Empty takes the cluster file's.
    """

    threads: int | None = 1
    store: Path | None = None
    shaped: bool = True
    local_sockets: bool = True
    network: str = ""
    name: str = ""


@dataclass
class Lab:
    """Workers of a cluster, running on this machine.

    Attributes:
        plan: How it is laid out.
        endpoint: A leader's endpoint that reaches all workers, not shaped.
        left_out: Traits of the links that are not emulated, for people.
        addresses: Per device, where its worker listens.
        net: The namespaces; None where links are emulated in the workers.
        spawn: Starts the worker of a device, where it always is.
    """

    cluster: Cluster
    plan: LabPlan
    endpoint: Endpoint
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)
    net: Namespaces | None = None
    spawn: Callable[[str], subprocess.Popen[bytes]] | None = None

    def open_leader(self, name: str) -> Endpoint:
        """The endpoint of one more leader; the caller closes it."""
        return self.plan.open_leader(name)

    def kill(self, device: str) -> None:
        """End a worker as a crash would."""
        self.processes[device].kill()

    def freeze(self, device: str) -> None:
        """Suspend a worker with SIGSTOP."""
        self.processes[device].send_signal(signal.SIGSTOP)

    def thaw(self, device: str) -> None:
        """Let a suspended worker go on."""
        self.processes[device].send_signal(signal.SIGCONT)

    def restart(self, device: str) -> None:
        """Start a worker again, once the process that it was has ended."""
        assert self.spawn is not None
        ended = self.processes[device]
        ended.wait()
        if ended.stdin is not None:
            with contextlib.suppress(OSError):
                ended.stdin.close()
        self.processes[device] = self.spawn(device)


@contextlib.contextmanager
def start_lab(cluster: Cluster, options: LabOptions | None = None) -> Iterator[Lab]:
    """Run one worker process per device on loopback, and yield when all are there.

    The workers end with the context, with an error in it, and with this process.

    Raises:
        RunError: A worker did not start; the message has its last words.
    """
    options = options or LabOptions()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(open_folder())
        network = options.network or cluster.lab.network
        net = stack.enter_context(open_namespaces(cluster)) if network == "netns" else None
        if net is not None:
            places = net.places
            # Unix sockets would bypass the namespaces' links.
            options = replace(options, local_sockets=False, shaped=False)
            plan = LabPlan(cluster, options, directory, places)
        else:
            addresses = stack.enter_context(hold_addresses(len(cluster.names)))
            places = {n: Place(a) for n, a in zip(cluster.names, addresses, strict=True)}
            plan = LabPlan(cluster, options, directory, places)
        lab = Lab(cluster, plan, plan.open_leader(), addresses=plan.addresses, net=net)
        lab.left_out = left_out(cluster) if net is not None else ()
        stack.callback(lab.endpoint.close)
        stack.callback(end_processes, lab.processes)
        stack.enter_context(terminate_as_exit())
        lab.spawn = lambda name: spawn(
            plan.worker(cluster.device(name)), directory, places[name].prefix
        )
        for name in cluster.names:
            lab.processes[name] = lab.spawn(name)
        wait_for_workers(lab, directory)
        yield lab


class LabPlan:
    """Addresses and links of a lab.

    Args:
        directory: Place for logs and for the files that stand for shared media.
    """

    def __init__(
        self, cluster: Cluster, options: LabOptions, directory: Path, places: Mapping[str, Place]
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.directory = directory
        self.id = options.name or f"lab-{uuid.uuid4().hex[:8]}"
        self.addresses = {name: place.address for name, place in places.items()}
        self.is_private = any(place.is_private for place in places.values())

    def worker(self, device: Device) -> WorkerOptions:
        """The options of one worker."""
        before = self.cluster.names[: self.cluster.names.index(device.name)]
        return WorkerOptions(
            network=ZenohOptions(
                device.name,
                self.id,
                listen=(self.addresses[device.name],),
                connect=tuple(self.addresses[name] for name in before),
                discovers=False,
                local_sockets=self.options.local_sockets,
                role="worker",
                insecure=self.is_private,
            ),
            store=str(self.options.store) if self.options.store else "",
            memory_limit_bytes=device.memory_bytes,
            threads=self.options.threads or device.threads,
            providers=(device.provider,),
            slow_down=device.slow_down,
            endpoint=device.endpoint or "",
            links=self.shapes(device.name) if self.options.shaped else None,
        )

    def shapes(self, source: str) -> dict[str, Link]:
        """The emulated links that begin on a device; what they share with others is in files."""
        return {
            link.target: replace(
                link,
                medium=str(self.directory / f"medium-{link.medium}") if link.medium else None,
                ports=tuple(
                    port._replace(name=str(self.directory / f"port-{port.name}"))
                    for port in link.ports
                ),
            )
            for link in self.cluster.links
            if link.source == source
        }

    def open_leader(self, name: str = "leader") -> Endpoint:
        """A leader's endpoint; shaped ones stamp their messages, so it must, too."""
        network = ZenohOptions(
            name,
            self.id,
            connect=tuple(self.addresses.values()),
            local_sockets=self.options.local_sockets,
            insecure=self.is_private,
        )
        inner = ZenohEndpoint(network)
        if not self.options.shaped:
            return inner
        return ShapedEndpoint(inner, {})


def spawn(
    options: WorkerOptions, directory: Path, prefix: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a worker process; it ends when its standard input does.

    Args:
        directory: Place for its log.
        prefix: Command that runs the worker, such as one that enters a namespace.
    """
    with log_path(directory, options.network.name).open("wb") as log:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, **WORKER_ENV},
            # Ctrl-C goes to this process alone, which then ends the workers in order.
            start_new_session=True,
        )
    if process.stdin is not None:
        process.stdin.write(msgspec.json.encode(options) + b"\n")
        process.stdin.flush()
    return process


def wait_for_workers(lab: Lab, directory: Path, timeout_s: float = _START_S) -> None:
    """Wait until all workers are there.

    Raises:
        RunError: One has ended, or is not there in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while missing := set(lab.processes) - lab.endpoint.peers():
        for name in sorted(missing):
            ended = lab.processes[name].poll() is not None
            if ended or time.monotonic() > deadline_s:
                words = last_words(directory, name)
                what = "ended at once" if ended else f"is not there after {timeout_s:g} s"
                raise RunError(f"Worker {name!r} of the lab {what}: {words}", device=name)
        time.sleep(_POLL_S)


def log_path(directory: Path, name: str) -> Path:
    """The file of a worker's standard error."""
    return directory / f"{name}.log"


def last_words(directory: Path, name: str) -> str:
    """The last line that a worker wrote."""
    lines = log_path(directory, name).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing."


def end_processes(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """End the workers: by the end of their input, then by signals.

    A fork of the process that started them only lets go of their inputs.
    """
    for process in processes.values():
        with contextlib.suppress(OSError):
            process.send_signal(signal.SIGCONT)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
    deadline_s = time.monotonic() + _END_S
    for process in processes.values():
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def terminate_as_exit() -> Iterator[None]:
    """Let SIGTERM unwind this process like an exit, so that contexts end; main thread only."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    try:
        old = signal.signal(signal.SIGTERM, leave)
    except ValueError:
        # Not the main thread: the workers end with their pipes.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
