"""A network namespace per device with rates set by the kernel; needs root and iproute2."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

import psutil

from partita.cluster import Cluster
from partita.errors import RunError
from partita.lab.places import Place

_PORT = 7447
_PREFIX = "pt"
#: The token bucket: five Ethernet frames, so that messages of some kB are paced, too.
_BURST_BYTES = 8000
_FREE_RATE = "10gbit"
_FREE_CLASS = 2
_PORT_CLASS = 3
_FIRST_CLASS = 16


def left_out(cluster: Cluster) -> tuple[str, ...]:
    """Traits of the cluster's links that namespaces do not emulate, for people."""
    traits = []
    if any(link.latency_s or link.per_message_s for link in cluster.links):
        traits.append("latency and cost per message (this kernel has rates only)")
    if any(link.medium for link in cluster.links):
        traits.append("shared media")
    if any(link.trace for link in cluster.links):
        traits.append("traces")
    return tuple(traits)


@contextlib.contextmanager
def open_namespaces(cluster: Cluster) -> Iterator[Namespaces]:
    """Make a namespace per device on one bridge, and yield them.

    Links that the cluster lacks are as fast as the machine; the path to the leader is, too.

    Raises:
        RunError: Not root, no iproute2, or the kernel refuses.
    """
    if os.geteuid() != 0:
        raise RunError("Network namespaces need root: run as root, or use network 'user'.")
    _sweep()
    net = Namespaces(cluster)
    with contextlib.ExitStack() as stack:
        stack.callback(net.remove)
        net.make()
        yield net


class Namespaces:
    """One lab's bridge, namespaces and interfaces.

    Args:
        cluster: Its devices get a namespace each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._pid = os.getpid()
        self._net = f"10.213.{self._pid % 250}"
        self.bridge = f"{_PREFIX}{self._pid}"
        self.own = f"{self._net}.1"

    @property
    def places(self) -> dict[str, Place]:
        """Where each worker runs."""
        return {
            name: Place(
                f"tcp/{self.address(name)}:{_PORT}",
                ("ip", "netns", "exec", self.space(name)),
                is_private=True,
            )
            for name in self.cluster.names
        }

    def set_cable(self, name: str, *, plugged: bool) -> None:
        """Pull or plug in a device's cable: nothing is sent to say so, as on a real switch."""
        _run("ip", "link", "set", self._outer(name), "up" if plugged else "down")

    def set_rate(self, source: str, target: str, bytes_per_s: float) -> None:
        """Set another rate of a link that the cluster has."""
        line = f"class change dev eth0 parent {self._parent(source)} "
        line += self._class(source, target, bytes_per_s)
        _run("tc", "-netns", self.space(source), *line.split())

    def _outer(self, name: str) -> str:
        return f"{self.bridge}.{self.cluster.names.index(name)}"

    def space(self, name: str) -> str:
        """The namespace of a device."""
        return f"{self.bridge}-{self.cluster.names.index(name)}"

    def address(self, name: str) -> str:
        """The address of a device."""
        return f"{self._net}.{self.cluster.names.index(name) + 2}"

    def make(self) -> None:
        """Make all of it."""
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.own}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")
        for name in self.cluster.names:
            self._make_space(name, self._outer(name))

    def _make_space(self, name: str, outer: str) -> None:
        space = self.space(name)
        within = ("ip", "-netns", space)
        _run("ip", "netns", "add", space)
        _run(
            "ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space
        )  # fmt: skip
        _run("ip", "link", "set", outer, "master", self.bridge, "up")
        _run(*within, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        _run(*within, "link", "set", "lo", "up")
        _run(*within, "link", "set", "eth0", "up")
        for line in self._rates(name):
            _run("tc", "-netns", space, *line.split())
        for line in self._inward(name, outer):
            _run("tc", *line.split())

    def _rates(self, name: str) -> list[str]:
        """The ``tc`` commands that limit what leaves a device, per target."""
        lines = [
            f"qdisc add dev eth0 root handle 1: htb default {_FREE_CLASS}",
            f"class add dev eth0 parent 1: classid 1:{_FREE_CLASS:x} htb rate {_FREE_RATE}",
        ]
        port = self.cluster.device(name).port_bytes_per_s
        if port is not None:
            lines.append(f"class add dev eth0 parent 1: {_limited(_PORT_CLASS, port)}")
        for target in self.cluster.names:
            link = self.cluster.link(name, target)
            if link is None:
                continue
            lines += [
                f"class add dev eth0 parent {self._parent(name)} "
                + self._class(name, target, link.bandwidth_bytes_per_s),
                f"filter add dev eth0 parent 1: protocol ip prio 1 "
                f"u32 match ip dst {self.address(target)}/32 flowid 1:{self._number(target):x}",
            ]
        return lines

    def _inward(self, name: str, outer: str) -> list[str]:
        """The ``tc`` commands that limit what comes to a device from all others, not the leader."""
        port = self.cluster.device(name).port_bytes_per_s
        if port is None:
            return []
        return [
            f"qdisc add dev {outer} root handle 1: htb default {_PORT_CLASS}",
            f"class add dev {outer} parent 1: classid 1:{_FREE_CLASS:x} htb rate {_FREE_RATE}",
            f"class add dev {outer} parent 1: {_limited(_PORT_CLASS, port)}",
            f"filter add dev {outer} parent 1: protocol ip prio 1 "
            f"u32 match ip src {self.own}/32 flowid 1:{_FREE_CLASS:x}",
        ]

    def _parent(self, source: str) -> str:
        return "1:" if self.cluster.device(source).port_bytes_per_s is None else f"1:{_PORT_CLASS}"

    def _number(self, target: str) -> int:
        return _FIRST_CLASS + self.cluster.names.index(target)

    def _class(self, source: str, target: str, bytes_per_s: float) -> str:
        port = self.cluster.device(source).port_bytes_per_s
        if port is None:
            return _limited(self._number(target), bytes_per_s)
        # The kernel grants every class its rate; only what is above is shared within the parent's.
        least = port / len(self.cluster.names)
        return _limited(self._number(target), min(least, bytes_per_s), bytes_per_s)

    def remove(self) -> None:
        """Remove all of it, whatever is there."""
        for name in self.cluster.names:
            # The kernel would drop the interface with its namespace, but some time later.
            with contextlib.suppress(RunError):
                _run("ip", "link", "delete", self._outer(name))
            with contextlib.suppress(RunError):
                _run("ip", "netns", "delete", self.space(name))
        with contextlib.suppress(RunError):
            _run("ip", "link", "delete", self.bridge)


def _limited(number: int, bytes_per_s: float, most_bytes_per_s: float | None = None) -> str:
    """A class with a granted rate, and the rate up to which it borrows from its parent."""
    rate, most = (f"{int(one * 8)}bit" for one in (bytes_per_s, most_bytes_per_s or bytes_per_s))
    limits = f"rate {rate} ceil {most} burst {_BURST_BYTES} cburst {_BURST_BYTES}"
    return f"classid 1:{number:x} htb {limits}"


def _sweep() -> None:
    """Remove what labs of processes that no longer live have left."""
    for line in _run("ip", "netns", "list").splitlines():
        space = line.split()[0]
        pid = space.removeprefix(_PREFIX).split("-")[0]
        if space.startswith(_PREFIX) and pid.isdigit() and not psutil.pid_exists(int(pid)):
            _run("ip", "netns", "delete", space)
            with contextlib.suppress(RunError):
                _run("ip", "link", "delete", f"{_PREFIX}{pid}")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        raise RunError(
            f"Command {command[0]!r} is missing: install iproute2, or use network 'user'."
        ) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise RunError(f"Network namespaces cannot be set up: {' '.join(command)}: {lines[-1]}.")
    return done.stdout
