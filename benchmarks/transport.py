"""Tensors through the fabric against a plain blocking socket, and emulated links against the ideal.

Each end runs in a process of its own. Shaped links need root: two network namespaces joined by a
veth pair under ``tc tbf``. Prints one table; ``--json`` prints the same as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from partita.execution import Link
from partita.fabric import WORKER_ENV, ShapedEndpoint, ZenohEndpoint, ZenohOptions

HEAD = struct.Struct("<cQ")
PORT = int(os.environ.get("PARTITA_BENCH_PORT", "0"))  # set for all processes by the first
WINDOW, CREDIT = 16, 8
KIB, MIB = 1024, 2**20
NAMESPACES = ("partita-a", "partita-b")
HOSTS = ("10.77.0.1", "10.77.0.2")


@dataclass(frozen=True)
class Row:
    """One comparison: ours and the peer's number, and which ratio is wanted."""

    case: str
    unit: str
    ours: float
    peer: float
    ratio: float
    target: str
    met: bool


# --- the plain blocking socket -------------------------------------------------------------------


def serve_socket(host: str) -> None:
    listener = socket.create_server((host, PORT))
    print("ready", flush=True)
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head, buffer = bytearray(HEAD.size), memoryview(bytearray(8 * MIB))
    with contextlib.suppress(ConnectionError):
        while True:
            read_exactly(sock, memoryview(head))
            op, size = HEAD.unpack(head)
            read_exactly(sock, buffer[:size])
            if op == b"p":
                sock.sendall(head)
                sock.sendall(buffer[:size])
            elif op == b"e":
                sock.sendall(b"!")


def read_exactly(sock: socket.socket, view: memoryview) -> None:
    while len(view):
        got = sock.recv_into(view)
        if not got:
            raise ConnectionError
        view = view[got:]


class SocketClient:
    def __init__(self, host: str) -> None:
        self.sock = socket.create_connection((host, PORT))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(8 * MIB))

    def send(self, op: bytes, payload: memoryview) -> None:
        self.sock.sendall(HEAD.pack(op, len(payload)))
        self.sock.sendall(payload)

    def ping(self, payload: memoryview) -> None:
        self.send(b"p", payload)
        read_exactly(self.sock, self.buffer[: HEAD.size + len(payload)])

    def stream(self, payload: memoryview, count: int) -> None:
        for _ in range(count):
            self.send(b"s", payload)
        self.send(b"e", payload[:0])
        read_exactly(self.sock, self.buffer[:1])

    def close(self) -> None:
        self.sock.close()


# --- the fabric ----------------------------------------------------------------------------------


def endpoint(name: str, hosts: tuple[str, str], local: bool) -> ZenohEndpoint:
    own, other = hosts if name == "server" else reversed(hosts)
    options = ZenohOptions(
        name,
        cluster="bench",
        listen=(f"tcp/{own}:{PORT + (10 if name == 'server' else 20)}",),
        connect=() if name == "server" else (f"tcp/{other}:{PORT + 10}",),
        local_sockets=local,
        insecure=True,
    )
    return ZenohEndpoint(options)


def serve_fabric(host: str, local: bool) -> None:
    end = endpoint("server", (host, ""), local)
    inbox: queue.SimpleQueue[tuple[bytes, memoryview]] = queue.SimpleQueue()
    end.on_data(lambda source, header, payload: inbox.put((header, payload)))
    end.announce(b"")
    print("ready", flush=True)
    count = 0
    while True:
        header, payload = inbox.get()
        np.frombuffer(payload, np.uint8)
        if header == b"p":
            end.send("client", b"", payload)
        elif header == b"e":
            end.notify("client", b"e")
        else:
            count += 1
            if count % CREDIT == 0:
                end.notify("client", b"c")


class FabricClient:
    def __init__(self, hosts: tuple[str, str], local: bool) -> None:
        self.end = endpoint("client", hosts, local)
        self.inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.end.on_data(lambda source, header, payload: self.inbox.put(payload))
        self.end.on_notify(lambda source, body: self.inbox.put(body))
        self.end.announce(b"")

    def ping(self, payload: memoryview) -> None:
        self.end.send("server", b"p", payload)
        self.inbox.get()

    def stream(self, payload: memoryview, count: int) -> None:
        credit = WINDOW
        for _ in range(count):
            while credit == 0 or not self.inbox.empty():
                credit += CREDIT if self.inbox.get() == b"c" else 0
            credit -= 1
            self.end.send("server", b"s", payload)
        self.end.send("server", b"e", b"")
        while self.inbox.get() != b"e":
            pass

    def close(self) -> None:
        self.end.close()


# --- one client process measures one thing -------------------------------------------------------


def measure(args: argparse.Namespace) -> None:
    hosts = (args.server_host, args.client_host)
    kind = args.transport
    client = SocketClient(hosts[0]) if kind == "socket" else FabricClient(hosts, args.local)
    payload = memoryview(np.random.default_rng(0).bytes(args.size))
    for _ in range(3):
        client.ping(payload[: min(len(payload), 64 * KIB)])
    client.stream(payload, 2)
    times = []
    for _ in range(args.repeats):
        start_s = time.perf_counter()
        if args.what == "ping":
            client.ping(payload)
        else:
            client.stream(payload, args.count)
        times.append(time.perf_counter() - start_s)
    client.close()
    print(json.dumps(statistics.median(times)), flush=True)


def in_namespace(index: int, shaped: bool) -> list[str]:
    return ["ip", "netns", "exec", NAMESPACES[index]] if shaped else []


@contextlib.contextmanager
def server(transport: str, shaped: bool, local: bool) -> Iterator[None]:
    host = HOSTS[0] if shaped else "127.0.0.1"
    command = [*in_namespace(0, shaped), sys.executable, __file__, "--role", "server"]
    command += ["--transport", transport, "--server-host", host, *(["--local"] if local else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | WORKER_ENV)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


def time_one(transport: str, shaped: bool, local: bool, options: list[str]) -> float:
    hosts = HOSTS if shaped else ("127.0.0.1", "127.0.0.1")
    command = [*in_namespace(1, shaped), sys.executable, __file__, "--role", "client"]
    command += ["--transport", transport, "--server-host", hosts[0], "--client-host", hosts[1]]
    command += [*options, *(["--local"] if local else [])]
    with server(transport, shaped, local):
        output = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, env=os.environ | WORKER_ENV, timeout=120
        )
    return float(json.loads(output.stdout.splitlines()[-1]))


def alternate(run: Callable[[str], float], rounds: int) -> tuple[float, float]:
    """Return the medians of ours and the peer's, measured in turns."""
    pairs = [(run("fabric"), run("socket")) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


# --- the cases -----------------------------------------------------------------------------------


def rate_row(case: str, bytes_sent: int, times: tuple[float, float], wanted: float) -> Row:
    ours, peer = (bytes_sent / t / 1e6 for t in times)
    return Row(case, "MB/s", ours, peer, ours / peer, f">= {wanted:.2f}x", ours >= wanted * peer)


def unshaped_rows(rounds: int) -> list[Row]:
    rows = []
    for size, count in ((MIB, 100), (4 * MIB, 30)):
        options = ["--what", "stream", "--size", str(size), "--count", str(count), "--repeats", "5"]
        times = alternate(partial(time_one, shaped=False, local=True, options=options), rounds)
        rows.append(rate_row(f"{size // MIB} MiB, one host", size * count, times, 1.0))
    options = ["--what", "ping", "--size", "4096", "--repeats", "500"]
    ours, peer = alternate(lambda kind: time_one(kind, False, True, options), rounds)
    name = "4 KiB round trip, one host"
    rows.append(Row(name, "ms", ours * 1e3, peer * 1e3, ours / peer, "<= 0.5 ms", ours <= 0.5e-3))
    return rows


@contextlib.contextmanager
def shaped_namespaces(rate: str) -> Iterator[None]:
    def sh(*commands: str) -> None:
        for command in commands:
            subprocess.run(command.split(), check=True, stderr=subprocess.DEVNULL)

    with contextlib.suppress(subprocess.CalledProcessError):
        sh(*[f"ip netns del {name}" for name in NAMESPACES])
    try:
        sh(*[f"ip netns add {name}" for name in NAMESPACES])
        sh(f"ip link add pt0 netns {NAMESPACES[0]} type veth peer pt1 netns {NAMESPACES[1]}")
        for index, name in enumerate(NAMESPACES):
            run = f"ip netns exec {name}"
            sh(
                f"{run} ip addr add {HOSTS[index]}/24 dev pt{index}",
                f"{run} ip link set lo up",
                f"{run} ip link set pt{index} up",
                f"{run} tc qdisc add dev pt{index} root tbf rate {rate} burst 8kb latency 100ms",
            )
        yield
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def shaped_rows(rounds: int) -> list[Row]:
    rows = []
    for mbit in (50, 200):
        with shaped_namespaces(f"{mbit}mbit"):
            for size in (64 * KIB, 256 * KIB, MIB, 4 * MIB):
                count = max(2, int(mbit * 1e6 / 8 / size))
                options = f"--what stream --size {size} --count {count} --repeats 1".split()
                one = partial(time_one, shaped=True, local=False, options=options)
                times = alternate(one, rounds)
                case = f"{size // KIB} KiB, tc {mbit} Mbit/s"
                rows.append(rate_row(case, size * count, times, 0.95))
    return rows


def emulated_rows() -> list[Row]:
    """Time single pieces through an emulated link; the peer is the ideal link."""
    rows = []
    for mbit, size in [(m, s) for m in (50, 200) for s in (4 * KIB, 64 * KIB, MIB, 4 * MIB)]:
        latency_s = 0.002
        command = [sys.executable, __file__, "--role", "emulated", "--transport", "fabric"]
        command += ["--size", str(size), "--mbit", str(mbit), "--repeats", "20"]
        with server("shaped", False, True):
            output = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                check=True,
                env=os.environ | WORKER_ENV,
                timeout=120,
            )
        ours = float(json.loads(output.stdout.splitlines()[-1]))
        ideal = size / (mbit * 1e6 / 8) + latency_s
        case = f"{size // KIB} KiB, emulated {mbit} Mbit/s + 2 ms"
        met = ours - ideal < 0.5e-3 if size < 64 * KIB else abs(ours / ideal - 1) < 0.02
        target = "<= +0.5 ms" if size < 64 * KIB else "within 2 %"
        rows.append(Row(case, "ms", ours * 1e3, ideal * 1e3, ours / ideal, target, met))
    return rows


def shape(mbit: float) -> Link:
    return Link("a", "b", mbit * 1e6 / 8, latency_s=0.002)


def serve_shaped() -> None:
    """Answer each piece with a note that carries its time of arrival."""
    end = ShapedEndpoint(endpoint("server", ("127.0.0.1", ""), True), {})
    inbox: queue.SimpleQueue[float] = queue.SimpleQueue()
    end.on_data(lambda source, header, payload: inbox.put(time.monotonic()))
    end.announce(b"")
    print("ready", flush=True)
    while True:
        end.notify("client", b"t" + struct.pack("<d", inbox.get()))


def measure_emulated(args: argparse.Namespace) -> None:
    inner = endpoint("client", ("127.0.0.1", "127.0.0.1"), True)
    end = ShapedEndpoint(inner, {"server": shape(args.mbit)})
    arrivals: queue.SimpleQueue[float] = queue.SimpleQueue()
    end.on_notify(lambda source, body: arrivals.put(struct.unpack("<d", body[1:])[0]))
    end.announce(b"")
    payload = memoryview(bytes(args.size))
    times = []
    for _ in range(args.repeats + 2):
        start_s = time.monotonic()
        end.send("server", b"", payload)
        times.append(arrivals.get() - start_s)
    end.close()
    print(json.dumps(statistics.median(times[2:])), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("unshaped", "shaped", "emulated"))
    parser.add_argument("--role", choices=("server", "client", "emulated"))
    parser.add_argument("--transport", choices=("socket", "fabric", "shaped"))
    parser.add_argument("--server-host", default="127.0.0.1")
    parser.add_argument("--client-host", default="127.0.0.1")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--what", choices=("ping", "stream"))
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--mbit", type=float, default=100)
    args = parser.parse_args()
    if args.role == "server":
        serve = {"socket": lambda: serve_socket(args.server_host), "shaped": serve_shaped}
        serve.get(args.transport, lambda: serve_fabric(args.server_host, args.local))()
        return 0
    if args.role is not None:
        (measure if args.role == "client" else measure_emulated)(args)
        return 0
    return report(args)


def find_ports() -> int:
    """Return the first of a run of ports that are free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return min(port, 60000)


def report(args: argparse.Namespace) -> int:
    os.environ["PARTITA_BENCH_PORT"] = str(find_ports())
    rows: list[Row] = []
    if args.only in (None, "unshaped"):
        rows += unshaped_rows(args.rounds)
    if args.only in (None, "emulated"):
        rows += emulated_rows()
    if args.only in (None, "shaped") and os.geteuid() == 0:
        rows += shaped_rows(args.rounds)
    elif args.only in (None, "shaped"):
        print("shaped links left out: they need root", file=sys.stderr)
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    else:
        print(f"{'case':36} {'unit':>5} {'ours':>9} {'peer':>9} {'ratio':>6}  target")
        for row in rows:
            mark = "met" if row.met else "MISSED"
            print(
                f"{row.case:36} {row.unit:>5} {row.ours:9.3f} {row.peer:9.3f} {row.ratio:6.2f}  "
                f"{row.target} {mark}"
            )
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
