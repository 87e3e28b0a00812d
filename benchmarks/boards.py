"""Predicted against measured latency as a new user meets it: boards, TLS, shaped links.

Four network namespaces stand for boards, with a worker each that asks for certificates; what leaves
a board, and what comes to it, is shaped to 100 Mbit/s, as by its one cable. Profiles, links and
ports are measured from the workers (``partita profile MODEL --cluster FILE``), plans made with what
that wrote, and each plan run by ``partita run``, one request in flight, several times. Where more
than two workers compute at the same time they need as many cores. Needs root, iproute2 and OpenSSL.

    python -m benchmarks.boards [--models NAME...] [--runs 5] [--requests 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from tests.fabric.certificates import sign

from benchmarks.harness import Row, find_model, make_parser, partita, report, say
from partita.cluster import Cluster, Device, load_cluster
from partita.cost import CostModel
from partita.graph import load_graph
from partita.lab.netns import Namespaces, open_namespaces
from partita.plan import dump_plan
from partita.planners import PlanOptions, find_plan

NAMES = ("b0", "b1", "b2", "b3")
BIT_PER_S = 100e6
MODELS = ("plate-detector", "mobilenet_v2", "resnet50")
MOST = 0.05
#: A plan's name, its planner, and the boards that may compute.
CASES = (
    ("whole on one board", "single", ("b1",)),
    ("equal_rows on two", "equal_rows", ("b1", "b2")),
    ("best on two", "best", ("b1", "b2")),
    ("best on the requester and one", "best", ("b0", "b1")),
    ("equal_rows on four", "equal_rows", NAMES),
    ("best on four", "best", NAMES),
)
_PORT = 7447


def make_cluster() -> Cluster:
    """Four boards on one switch, with a cable of equal rate each."""
    rate = BIT_PER_S / 8
    devices = [Device(name, memory_bytes=2**32, port_bytes_per_s=rate) for name in NAMES]
    return Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=0.0)


def write_cluster(path: Path, net: Namespaces) -> None:
    """What a new user writes: names, memory and addresses."""
    tables = [f'[cluster]\nname = "boards"\nrequester = "{NAMES[0]}"\n']
    tables += [
        f'[[device]]\nname = "{name}"\nmemory = "4 GB"\naddress = "{address_of(net, name)}"\n'
        for name in NAMES
    ]
    path.write_text("\n".join(tables))


def address_of(net: Namespaces, name: str) -> str:
    """Where a board's worker listens."""
    return f"tls/{net.address(name)}:{_PORT}"


def credentials(folder: Path, name: str, address: str) -> list[str]:
    """The flags of a certificate for ``address``, of an authority made at the first call."""
    tls = sign(folder, "boards", name, f"IP:{address}")
    named = (
        ("--authority", tls.authority),
        ("--certificate", tls.certificate),
        ("--key", tls.key),
    )
    return [word for pair in named for word in pair]


@contextmanager
def start_workers(net: Namespaces, folder: Path) -> Iterator[None]:
    """A worker in each namespace, as its board would start it."""
    running = []
    try:
        for name in NAMES:
            listen = ("--name", name, "--cluster-name", "boards", "--listen", address_of(net, name))
            # Two boards that compute at the same time have a core each.
            store = ("--threads", "1", "--store", str(folder / f"store-{name}"))
            command = partita(
                "worker", *listen, *store, *credentials(folder, name, net.address(name))
            )
            within = ["ip", "netns", "exec", net.space(name), *command]
            running.append(subprocess.Popen(within, stdout=subprocess.DEVNULL))
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=20)


def call(*arguments: str) -> str:
    """The output of a verb.

    Raises:
        RuntimeError: It failed; the message has its last words.
    """
    done = subprocess.run(partita(*arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"partita {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def measure(name: str, folder: Path, flags: list[str], runs: int, requests: int) -> list[Row]:
    """The rows of one model: all its plans run in turn, ``runs`` times."""
    model, measured = folder / f"{name}.onnx", folder / f"{name}.toml"
    onnx.save(find_model(name), str(model))
    start_s = time.monotonic()
    boards = str(folder / "boards.toml")
    call("profile", str(model), "--cluster", boards, *flags, "-o", str(measured))
    say(f"{name}: profiles and links measured in {time.monotonic() - start_s:.0f} s")
    cost = CostModel(load_graph(model), load_cluster(measured))
    plans: dict[str, Path] = {}
    for case, planner, devices in CASES:
        plans[case] = folder / f"{name}-{len(plans)}.json"
        options = PlanOptions(devices=devices, most_s=5.0)
        found = find_plan(cost, planner=planner, options=options)
        plans[case].write_bytes(dump_plan(found.plan))
    times: dict[str, list[tuple[float, float]]] = {case: [] for case in plans}
    shared = ("--model", str(model), "--cluster", str(measured), "--requests", str(requests))
    for _ in range(runs):
        for case, plan in plans.items():
            said = call("run", str(plan), *shared, "--in-flight", "1", *flags, "--json")
            run = json.loads(said)
            times[case].append((run["predicted"]["latency_s"]["p50"], run["latency_s"]["p50"]))
    rows = []
    for case, pairs in times.items():
        predicted, taken = (statistics.median(column) for column in zip(*pairs, strict=True))
        error = predicted / taken - 1
        met = abs(error) <= MOST
        say(f"{name}, {case}: {error:+.1%}")
        figures = (predicted * 1e3, taken * 1e3, 1 + error)
        rows.append(Row(f"{name}, {case}", "ms", *figures, f"within {MOST:.0%}", met))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--runs", type=int, default=5, help="runs of each plan")
    parser.add_argument("--requests", type=int, default=10, help="requests of each run")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="partita-boards-") as place:
        folder = Path(place)
        with open_namespaces(make_cluster()) as net:
            write_cluster(folder / "boards.toml", net)
            flags = credentials(folder, "leader", net.own)
            with start_workers(net, folder):
                for name in args.models:
                    rows += measure(name, folder, flags, args.runs, args.requests)
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
