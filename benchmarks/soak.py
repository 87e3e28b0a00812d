"""Half an hour under load with a fault every twenty seconds: what is lost, and what grows.

Four workers run a small network divided over all of them, two requests at a time. Again and again,
in random order, a worker is killed and started again, frozen and thawed, drained and started again,
has its cable pulled and plugged in again, or a link of it slowed down to 64 kbit/s. The first is
the requester, for which requests wait.

    python -m benchmarks.soak [--seconds 1800] [--every 20] [--seed 0] [--front] [--json]

Every answer is compared with the whole network's, in order. Before each fault, once all devices
work and something stands by for the loss of each, memory, file descriptors, threads and shared
memory are noted of the leader and of the workers that live throughout; the first and last quarter
of what was noted after a sixth of the time are compared: the median of memory, the least of counts,
which go up and down with the plan in force. Threads that came are named: Zenoh starts some where
connections break and are made (``rx-12``, ``net-5``), which end after ten seconds without work; so
one more at the end, in a run whose last faults were seconds before, is no growth. Cables and slow
links are those of network namespaces, for which root and iproute2 are needed; else others are
drawn. With ``--front`` requests come over HTTP, to a front in the leader's process, where its
clients are, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.chaos import SLOW_BIT_PER_S, draw_input, make_model
from benchmarks.front_load import FrontLoad, open_front
from benchmarks.harness import Row, at_least, at_most, make_parser, open_session, report, say, shown
from benchmarks.recovery import INPUTS, Load, open_on
from partita.cluster import Cluster, Device
from partita.graph import load_graph
from partita.lab import Lab, LabOptions, start_lab
from partita.leader import Session
from partita.planners import PlanOptions

NAMES = ("d0", "d1", "d2", "d3")
#: The workers that are killed; the others live throughout.
_KILLED = ("d2", "d3")
_RATE = 25e6
#: What a process may grow by: a part of what it held, or so many bytes.
_MOST_GROWTH, _MOST_GROWTH_BYTES = 0.02, 5e6
#: The first part of the time, which counts for nothing.
_WARM_UP = 1 / 6
_LOOK_S = 0.1
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Sizes:
    """What a process holds.

    Attributes:
        names: Of its threads, as the system has them.
    """

    memory_bytes: float
    files: float
    threads: float
    shared: float
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, pid: int) -> Sizes:
        """Return what a process holds now; shared memory by the maps of it."""
        process = psutil.Process(pid)
        maps = Path(f"/proc/{pid}/maps").read_text()
        shared = sum("memfd:" in line or "/dev/shm/" in line for line in maps.splitlines())
        memory = process.memory_full_info().uss
        return cls(memory, process.num_fds(), process.num_threads(), shared, name_threads(pid))

    @classmethod
    def usual(cls, several: Sequence[Sizes]) -> Sizes:
        """Return the median of memory, and the least of all else, which the plan in force sways."""
        memory = statistics.median(one.memory_bytes for one in several)
        counts = ("files", "threads", "shared")
        return cls(memory, *(min(getattr(one, name) for one in several) for name in counts))


def name_threads(pid: int) -> tuple[str, ...]:
    """Return the names of a process's threads; those that end meanwhile are left out."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text().strip())
    return tuple(names)


class Faults:
    """What happens to the workers, and how it ends."""

    def __init__(self, lab: Lab, session: Session, seed: int) -> None:
        self._lab, self._session = lab, session
        self.draw = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.kinds = ["kill", "freeze", "drain"] + ["cable", "slow"] * (lab.net is not None)
        #: So that all kinds come up equally often.
        self._left: list[str] = []

    def strike(self) -> Callable[[], None]:
        """Let something happen, and return what ends it."""
        if not self._left:
            self._left = self.draw.sample(self.kinds, len(self.kinds))
        kind = self._left.pop()
        victim = self.draw.choice(self._may_strike(kind))
        self.happened[kind] += 1
        say(f"{kind} {victim}")
        return getattr(self, f"_{kind}")(victim)  # type: ignore[no-any-return]

    def _may_strike(self, kind: str) -> Sequence[str]:
        """Return whom; the requester's own slow link would be everybody's."""
        return _KILLED if kind in ("kill", "drain") else NAMES[1:] if kind == "slow" else NAMES

    def _kill(self, victim: str) -> Callable[[], None]:
        self._lab.kill(victim)
        return lambda: self._lab.restart(victim)

    def _freeze(self, victim: str) -> Callable[[], None]:
        self._lab.freeze(victim)
        return lambda: self._lab.thaw(victim)

    def _drain(self, victim: str) -> Callable[[], None]:
        if victim in {part.device for part in self._session.program.devices}:
            self._session.drain(victim)
        return self._kill(victim)

    def _cable(self, victim: str) -> Callable[[], None]:
        net = self._lab.net
        assert net is not None
        net.set_cable(victim, plugged=False)
        return lambda: net.set_cable(victim, plugged=True)

    def _slow(self, victim: str) -> Callable[[], None]:
        net, other = self._lab.net, self.draw.choice([n for n in NAMES[1:] if n != victim])
        assert net is not None
        net.set_rate(victim, other, SLOW_BIT_PER_S / 8)
        return lambda: net.set_rate(victim, other, _RATE)


class Soak:
    """One long run."""

    def __init__(
        self,
        lab: Lab,
        session: Session,
        load: Load | FrontLoad,
        arguments: argparse.Namespace,
    ) -> None:
        self._lab, self._session, self._load, self._arguments = lab, session, load, arguments
        self.faults = Faults(lab, session, arguments.seed)
        self.noted: dict[str, list[tuple[float, Sizes]]] = defaultdict(list)
        self._pids = {"leader": os.getpid()} | {
            name: lab.processes[name].pid for name in NAMES if name not in _KILLED
        }

    def run(self) -> None:
        """Let faults happen until the time is over."""
        began_s = time.monotonic()
        end_s = began_s + self._arguments.seconds
        while time.monotonic() < end_s and not self._load.answers.error:
            next_s = time.monotonic() + self._arguments.every
            self._await_settled(next_s)
            self._note(time.monotonic() - began_s)
            finish = self.faults.strike()
            time.sleep(self.faults.draw.uniform(0.1, 0.3) * self._arguments.every)
            finish()
            time.sleep(max(0.0, next_s - time.monotonic()))

    def _await_settled(self, until_s: float) -> None:
        while not self._is_settled() and time.monotonic() < until_s:
            time.sleep(_LOOK_S)

    def _is_settled(self) -> bool:
        return not self._session.lost and set(self._session.covered) == set(NAMES[1:])

    def _note(self, at_s: float) -> None:
        if self._is_settled():
            for name, pid in self._pids.items():
                self.noted[name].append((at_s, Sizes.of(pid)))

    def rows(self) -> list[Row]:
        """Return what was lost and what has grown."""
        answers = self._load.answers
        gaps = [b - a for a, b in pairwise(answers.times)]
        done = sum(self.faults.happened.values())
        words = ", ".join(f"{n} {kind}" for kind, n in sorted(self.faults.happened.items()))
        rows = [
            at_least(f"faults ({words})", "", done, 1),
            at_most(f"ended early {answers.error}", "", bool(answers.error), 0),
            at_most(f"wrong of {len(answers.times)} answers", "", answers.wrong, 0),
            at_most("lost or doubled", "", abs(answers.asked - len(answers.times)), 0),
            shown("longest gap", "s", max(gaps)),
        ]
        for name, noted in self.noted.items():
            rows += self._growth(name, noted)
        return rows

    def _growth(self, name: str, noted: Sequence[tuple[float, Sizes]]) -> list[Row]:
        """Return how much a process has grown, where it was noted often enough."""
        late = [sizes for at_s, sizes in noted if at_s > _WARM_UP * self._arguments.seconds]
        quarter = len(late) // 4
        if not quarter:
            return [shown(f"{name}: noted too seldom", "", len(late))]
        first, last = Sizes.usual(late[:quarter]), Sizes.usual(late[-quarter:])
        most_bytes = max(_MOST_GROWTH_BYTES, _MOST_GROWTH * first.memory_bytes)
        grown = last.memory_bytes - first.memory_bytes
        more = Counter(late[-1].names) - Counter(late[0].names)
        came = f" ({', '.join(f'{n} {each}' for each, n in more.items())})" if more else ""
        return [
            at_most(f"{name}: memory grown", "MB", grown / 1e6, most_bytes / 1e6),
            at_most(f"{name}: files grown", "", last.files - first.files, 0),
            at_most(f"{name}: threads grown{came}", "", last.threads - first.threads, 0),
            at_most(f"{name}: shared memory grown", "maps", last.shared - first.shared, 0),
        ]


def soak(arguments: argparse.Namespace) -> list[Row]:
    """Return the rows of one long run."""
    model = make_model()
    graph = load_graph(model)
    cluster = Cluster.of([Device(name, kind="raspberry-pi-4") for name in NAMES], latency_s=0.0)
    has_net = os.geteuid() == 0 and bool(shutil.which("ip") and shutil.which("tc"))
    options = LabOptions(network="netns" if has_net else "user", shaped=False)
    whole = open_session(model, 1)
    inputs = [draw_input(number) for number in range(INPUTS)]
    with (
        tempfile.TemporaryDirectory() as store,
        start_lab(cluster, replace(options, store=Path(store))) as lab,
        open_on(graph, lab, "equal_rows", PlanOptions(in_flight=2)) as session,
    ):
        session.begin_traces()
        expected = [whole(one) for one in inputs]
        load: Load | FrontLoad = Load(session, inputs, expected, tolerance=_TOLERANCE)
        with ExitStack() as stack:
            if arguments.front:
                place = stack.enter_context(open_front(session))
                load = FrontLoad(place, inputs, expected, _TOLERANCE)
            load.start()
            run = Soak(lab, session, load, arguments)
            run.run()
            load.end()
    return run.rows()


def main() -> int:
    """Run, and print what came of it."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds from fault to fault")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when, to whom")
    parser.add_argument("--front", action="store_true", help="ask over HTTP")
    arguments = parser.parse_args()
    return report(soak(arguments), as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
