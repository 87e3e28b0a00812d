"""The other processes of ``benchmarks.front``: the service, and the echo that it is compared with.

The service deploys a plan in which every device computes for a part of the time and sleeps for the
rest, puts a front before its session, and takes orders on standard input, a line each, so that the
same session is asked through the front from outside and directly from here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psutil

from benchmarks.harness import draw_inputs, find_model, whole_plan
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.graph import Graph, load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import DeployOptions, Session, deploy
from partita.plan import Shard
from partita.serve import Front, listen_at, make_app, make_server, url_of

MODEL = "mobilenet_v2"
#: Together the devices need half a core.
DEVICES, SLOW_DOWN, IN_FLIGHT = 4, 8.0, 8


@dataclass(frozen=True)
class Deployed:
    """Where the model comes from; once."""

    name: str
    session: Session

    def open(self) -> contextlib.AbstractContextManager[Session]:
        """The session, which others end."""
        return contextlib.nullcontext(self.session)


@contextlib.contextmanager
def open_session(graph: Graph) -> Iterator[Session]:
    """Replicas of the whole network on emulated devices."""
    names = [f"d{number}" for number in range(DEVICES)]
    devices = [Device(name, memory_bytes=10**9, slow_down=SLOW_DOWN, threads=1) for name in names]
    cluster = Cluster.of(devices)
    alone = whole_plan(graph, cluster, names[0])
    shards = tuple(Shard(name) for name in names)
    stage = msgspec.structs.replace(alone.stages[0], axis="replica", shards=shards)
    plan = msgspec.structs.replace(alone, stages=(stage,), in_flight=IN_FLIGHT)
    options = DeployOptions(trace=False, remembered=1000)
    with (
        start_lab(cluster, LabOptions(shaped=False)) as lab,
        deploy(compile_plan(graph, plan, cluster), lab.endpoint, options) as session,
    ):
        yield session


def obey(session: Session, order: dict[str, Any], feeds: Sequence[Any]) -> dict[str, Any]:
    """Ask the session directly, or tell of this process."""
    count, limit = order.get("count", 1), order.get("in_flight", 1)
    start_s = time.perf_counter()
    if order["do"] == "run":
        for _ in session.iterate((feeds[n % len(feeds)] for n in range(count)), in_flight=limit):
            continue
    return {
        "seconds": time.perf_counter() - start_s,
        "memory_bytes": psutil.Process().memory_info().rss,
    }


def serve(queue: int, seeds: int) -> None:
    """Serve until standard input ends."""
    graph = load_graph(find_model(MODEL), name=MODEL)
    feeds = [draw_inputs(graph, seed) for seed in range(seeds)]
    with (
        open_session(graph) as session,
        listen_at("127.0.0.1:0") as listener,
        Front([Deployed(MODEL, session)], queue=queue) as front,
    ):
        server = make_server(make_app(front), front, grace_s=5.0)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        print(json.dumps({"url": url_of(listener)}), flush=True)
        for line in sys.stdin:
            print(json.dumps(obey(session, json.loads(line), feeds)), flush=True)
        server.should_exit = True
        thread.join()


def echo(answer: bytes) -> None:
    """Take requests, one connection after another, and give each the same answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                while take_request(connection):
                    connection.sendall(answer)


def take_request(connection: socket.socket) -> bool:
    """Read one request and forget it; whether there was one."""
    held = b""
    while b"\r\n\r\n" not in held:
        part = connection.recv(65_536)
        if not part:
            return False
        held += part
    head, _, rest = held.partition(b"\r\n\r\n")
    fields = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    left = next(int(value) for name, _, value in fields if name == b"content-length") - len(rest)
    room = memoryview(bytearray(1 << 20))
    while left > 0:
        left -= connection.recv_into(room)
    return True


def main() -> int:
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        echo(sys.stdin.buffer.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
