"""A service that is killed under load and started again: who waits, and what is left behind.

Four workers that are not slowed serve a network that is divided over all of them, to clients that
ask for one answer after the other. Again and again the service's process, which leads the workers,
is killed with SIGKILL and started again, as a supervisor would.

    python -m benchmarks.takeover [--model resnet50] [--trials 5] [--clients 4] [--json]

Silence counts from the kill to the error of the last client whose request was under way. The new
process counts from its start to its first answer, the reading of the model included. What workers
hold is private memory, beside what they held after a service that was ended in order; what they are
sent is seen in their stores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from tritonclient import http as triton

from benchmarks.harness import (
    Row,
    at_most,
    draw_inputs,
    find_model,
    make_parser,
    open_session,
    partita,
    report,
    say,
    shown,
)
from partita.cluster import Cluster, Device, dump_cluster
from partita.graph import load_graph
from partita.lab import Lab, LabOptions, start_lab

NAMES = ("d0", "d1", "d2", "d3")
MOST_SILENCE_S, MOST_START_S, MOST_HELD_BYTES = 1.0, 5.0, 5e6
#: Of the largest magnitude.
TOLERANCE = 1e-5
#: Answers of all clients together before the service is killed.
_BEFORE = 20
_PATIENCE_S, _LOOK_S = 60.0, 0.02
_HASH = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True)
class Case:
    """What clients ask, and what is right."""

    feeds: Mapping[str, Any]
    right: Mapping[str, Any]

    def ask(self, place: str) -> bool:
        """Whether the answer of a service is right.

        Raises:
            Exception: There is none.
        """
        given = []
        for name, array in self.feeds.items():
            one = triton.InferInput(name, list(array.shape), "FP32")
            one.set_data_from_numpy(array)
            given.append(one)
        with triton.InferenceServerClient(place, network_timeout=_PATIENCE_S) as client:
            answer = client.infer("m", given)
        pairs = [(answer.as_numpy(name), array) for name, array in self.right.items()]
        return all(abs(got - want).max() <= TOLERANCE * abs(want).max() for got, want in pairs)


class Client(threading.Thread):
    """Asks for one answer after the other until the service is gone.

    Attributes:
        error_s: When it was told so; None where it was not.
    """

    def __init__(self, case: Case, place: str) -> None:
        super().__init__(name="client", daemon=True)
        self._case, self._place = case, place
        self.answers = self.wrong = 0
        self.error_s: float | None = None

    def run(self) -> None:
        while True:
            try:
                is_right = self._case.ask(self._place)
            except Exception:  # whatever the client library makes of a service that is gone
                self.error_s = time.monotonic()
                return
            self.answers += 1
            self.wrong += not is_right


@dataclass
class Found:
    """What came of some trials, the worst of each."""

    silence_s: list[float] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    answers: int = 0
    wrong: int = 0
    pushed: int = 0


class Trials:
    """Services, one after the other, on the same workers.

    Args:
        store: Where all workers keep content.
        plan: File of what is served as ``m``.
        cluster: File that says where workers are.
    """

    def __init__(self, lab: Lab, store: Path, plan: Path, cluster: Path, case: Case) -> None:
        self._lab, self._store, self._case = lab, store, case
        words = ["serve", f"m={plan}", "--cluster", str(cluster), "--recover", "--json"]
        words += ["--listen", "127.0.0.1:0"]
        self._command = partita(*words)

    def run(self, trials: int, clients: int) -> Found:
        """End one service in order, then kill as many as there are trials."""
        found = Found()
        with self._serve() as (service, place):
            self._case.ask(place)
            service.terminate()
            service.wait(_PATIENCE_S)
        time.sleep(1.0)
        idle = self._held()
        for number in range(trials):
            before, began_s = self._list_store(), time.monotonic()
            with self._serve() as (service, place):
                found.wrong += not self._case.ask(place)
                found.start_s.append(time.monotonic() - began_s)
                self._strike(service, place, clients, found)
            after = self._list_store()
            found.pushed += sum(after.get(path) != before[path] for path in before)
            held = [now - then for now, then in zip(self._await_idle(idle), idle, strict=True)]
            found.held.append(max(held))
            found.served[-1] -= sum(idle)
            say(f"{number}: silence {found.silence_s[-1]:.2f} s, start {found.start_s[-1]:.2f} s")
        return found

    def _strike(
        self, service: subprocess.Popen[bytes], place: str, clients: int, found: Found
    ) -> None:
        """Kill a service under load."""
        asking = [Client(self._case, place) for _ in range(clients)]
        for client in asking:
            client.start()
        _await(lambda: sum(client.answers for client in asking) >= _BEFORE)
        found.served.append(sum(self._held()))
        struck_s = time.monotonic()
        service.kill()
        for client in asking:
            client.join(_PATIENCE_S)
        errors = [client.error_s or float("inf") for client in asking]
        found.silence_s.append(max(errors) - struck_s)
        found.answers += sum(client.answers for client in asking)
        found.wrong += sum(client.wrong for client in asking)

    @contextlib.contextmanager
    def _serve(self) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        """A service that answers, and where; it has ended afterwards."""
        service = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert service.stdout is not None
        try:
            url = json.loads(service.stdout.readline())["url"]
            yield service, url.removeprefix("http://")
        finally:
            service.kill()
            service.wait()
            service.stdout.close()

    def _held(self) -> list[float]:
        """The private bytes of each worker."""
        return [read_private(process.pid) for process in self._lab.processes.values()]

    def _await_idle(self, idle: Sequence[float]) -> list[float]:
        """What workers hold once they hold no more than before, or after some time."""
        deadline_s = time.monotonic() + MOST_START_S
        while time.monotonic() < deadline_s:
            pairs = zip(self._held(), idle, strict=True)
            if all(now <= then + MOST_HELD_BYTES for now, then in pairs):
                break
            time.sleep(_LOOK_S)
        return self._held()

    def _list_store(self) -> dict[str, int]:
        """The content that workers keep, by its hash; another number says that it came anew."""
        files = (path for path in self._store.rglob("*") if _HASH.match(path.name))
        return {path.name: path.stat().st_ino for path in files}


def read_private(pid: int) -> float:
    """The bytes of a process that are in no file and shared with no other."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


def _await(is_there: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_there():
        if time.monotonic() > deadline_s:
            raise RuntimeError("the service answers too slowly")
        time.sleep(_LOOK_S)


def measure(model: onnx.ModelProto, trials: int, clients: int) -> list[Row]:
    """Return what came of some kills."""
    graph = load_graph(model)
    cluster = replace(
        Cluster.of([Device(name, kind="raspberry-pi-4") for name in NAMES], latency_s=0.0),
        name="takeover",
    )
    feeds = draw_inputs(graph)
    right = dict(zip(graph.outputs, open_session(model, 1)(feeds), strict=True))
    with (
        tempfile.TemporaryDirectory() as folder,
        start_lab(
            cluster, LabOptions(shaped=False, store=Path(folder, "store"), name=cluster.name)
        ) as lab,
    ):
        there = tuple(replace(d, address=lab.addresses[d.name]) for d in cluster.devices)
        place, plan, file = (Path(folder, n) for n in ("lab.toml", "plan.json", "m.onnx"))
        place.write_text(dump_cluster(replace(cluster, devices=there)))
        onnx.save(model, file)
        words = ["plan", str(file), "--cluster", str(place), "--planner", "equal_rows"]
        words += ["--in-flight", "2", "-o", str(plan)]
        subprocess.run(partita(*words), check=True, stdout=subprocess.DEVNULL)
        found = Trials(lab, Path(folder, "store"), plan, place, Case(feeds, right)).run(
            trials, clients
        )
    return rows_of(found)


def rows_of(found: Found) -> list[Row]:
    """Return the worst of all trials."""
    return [
        at_most("kill to the last client's error", "s", max(found.silence_s), MOST_SILENCE_S),
        at_most("start to the first answer", "s", max(found.start_s), MOST_START_S),
        at_most("content sent again", "files", found.pushed, 0),
        shown("held by all workers while served", "MB", max(found.served) / 1e6),
        at_most("held by a worker after it", "MB", max(found.held) / 1e6, MOST_HELD_BYTES / 1e6),
        at_most(f"wrong of {found.answers} answers", "", found.wrong, 0),
    ]


def main() -> int:
    """Print what came of the trials."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4)
    arguments = parser.parse_args()
    rows = measure(find_model(arguments.model), arguments.trials, arguments.clients)
    return report(rows, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
