"""How long a lost device keeps requests waiting, and how soon one that is back is used again.

Four workers that are not slowed run a network divided over all of them, one request after the
other. Again and again one of them is struck at a random moment, and comes back: its process is
killed and started again, frozen and thawed, or its cable is pulled and plugged in again.

    python -m benchmarks.recovery [--models resnet50 vgg16] [--strikes kill freeze cable]
                                  [--trials 5] [--planner equal_rows] [--json]

The outage counts from the strike to the first answer that another plan gave, less the median time
of a request before. The time back counts from the start of the new process, the thawing or the
plugging until requests are admitted to a plan with the device. Plans are believed here as they are
predicted: on two cores four workers are no faster than three. Cables are those of network
namespaces, which need root and iproute2.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    Row,
    at_most,
    find_model,
    make_parser,
    open_session,
    report,
    say,
    shown,
)
from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.errors import PartitaError
from partita.execution.adapt import LOSSES_ONLY
from partita.graph import Graph, load_graph
from partita.lab import Lab, LabOptions, start_lab
from partita.leader import DeployOptions, Session, deploy
from partita.planners import PlanOptions, find_plan

NAMES = ("d0", "d1", "d2", "d3")
#: Most seconds of the worst trial, by strike, and of the median one of a kill.
WORST_S = {"kill": 1.5, "freeze": 2.5, "cable": 2.5}
MEDIAN_S = 0.7
BACK_S = 10.0
#: Different inputs, so that a doubled or reordered answer is wrong.
INPUTS = 5
#: Of the largest magnitude.
TOLERANCE = 1e-5
#: Requests that say what one takes.
_USUAL = 8
#: Longest wait for what a trial waits for.
_PATIENCE_S = 60.0
_LOOK_S = 0.02


@dataclass
class Answers:
    """What came, when, and whether it was right."""

    times: array[float] = field(default_factory=lambda: array("d"))  # of hours, in few bytes
    wrong: int = 0
    asked: int = 0
    error: str = ""

    @property
    def usual_s(self) -> float:
        """The median time of the last requests."""
        return statistics.median(b - a for a, b in pairwise(self.times[-_USUAL - 1 :]))


class Load(threading.Thread):
    """Asks for one answer after the other until told to end."""

    def __init__(
        self,
        session: Session,
        inputs: Sequence[Any],
        expected: Sequence[Any],
        tolerance: float = TOLERANCE,
    ) -> None:
        super().__init__(name="load", daemon=True)
        self.answers = Answers()
        self._tolerance = tolerance
        self._session, self._inputs, self._expected = session, inputs, expected
        self._ended = threading.Event()

    def run(self) -> None:
        answers = self.answers
        try:
            for number, answer in enumerate(self._session.iterate(self._feed())):
                answers.times.append(time.monotonic())
                want = self._expected[number % INPUTS]
                for got, right in zip(answer.values(), want, strict=True):
                    limit = self._tolerance * float(np.abs(right).max())
                    answers.wrong += bool(np.abs(got - right).max() > limit)
        except PartitaError as error:
            answers.error = error.message

    def _feed(self) -> Iterator[Mapping[str, Any]]:
        while not self._ended.is_set():
            self.answers.asked += 1
            yield self._inputs[(self.answers.asked - 1) % INPUTS]

    def end(self) -> None:
        """Feed nothing more, and wait for the last answer."""
        self._ended.set()
        self.join()


@dataclass(frozen=True)
class Trial:
    """One strike: the outage less a request, what that takes, and how soon the device was back."""

    outage_s: float
    usual_s: float
    search_s: float
    back_s: float


class Trials:
    """Strikes on one lab and session.

    Args:
        strike: ``kill``, ``freeze`` or ``cable``.
    """

    def __init__(self, lab: Lab, session: Session, load: Load, strike: str) -> None:
        self._lab, self._session, self._load, self._strike = lab, session, load, strike
        self._draw = random.Random(0)
        session.begin_traces()
        self._origin_s = time.monotonic()

    def run(self) -> Trial:
        """Strike one of the devices that work, and let it come back."""
        session = self._session
        others = [name for name in NAMES if name != session.program.requester]
        self._await(lambda: set(session.covered) >= set(others))
        reached = len(self._load.answers.times)
        self._await(lambda: len(self._load.answers.times) > reached + _USUAL)
        usual_s = self._load.answers.usual_s
        victim, known = self._draw.choice(others), len(self._recoveries())
        time.sleep(self._draw.random() * usual_s)
        struck_s = time.monotonic()
        self._do(victim, back=False)
        self._await(lambda: len(self._recoveries()) > known)
        self._await(lambda: self._recoveries()[-1].answered_s is not None)
        change = self._recoveries()[-1]
        assert change.answered_s is not None
        outage_s = self._origin_s + change.answered_s - struck_s - usual_s
        back_s = time.monotonic()
        self._do(victim, back=True)
        self._await(lambda: victim in [part.device for part in session.program.devices])
        return Trial(outage_s, usual_s, change.search_s, time.monotonic() - back_s)

    def _recoveries(self) -> list[Any]:
        return [change for change in self._session.changes if change.outcome == "recovered"]

    def _do(self, victim: str, *, back: bool) -> None:
        if self._strike == "cable":
            assert self._lab.net is not None
            self._lab.net.set_cable(victim, plugged=back)
        else:
            names = {"kill": (Lab.kill, Lab.restart), "freeze": (Lab.freeze, Lab.thaw)}
            names[self._strike][back](self._lab, victim)

    def _await(self, is_there: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not is_there():
            if time.monotonic() > deadline_s or self._load.answers.error:
                raise RuntimeError(
                    f"{self._load.answers.error or 'too late'}: {self._session.changes}"
                )
            time.sleep(_LOOK_S)


def measure(name: str, strike: str, arguments: argparse.Namespace) -> list[Row]:
    """Return the rows of one network and strike."""
    model = find_model(name)
    graph = load_graph(model)
    cluster = Cluster.of([Device(one, kind="raspberry-pi-4") for one in NAMES], latency_s=0.0)
    inputs = draw_inputs(graph.input_specs, INPUTS, 0)
    whole = open_session(model, 1)
    expected = [whole(one) for one in inputs]
    options = LabOptions(shaped=False, network="netns" if strike == "cable" else "user")
    with (
        tempfile.TemporaryDirectory() as store,
        start_lab(cluster, replace(options, store=Path(store))) as lab,
        open_on(graph, lab, arguments.planner) as session,
    ):
        load = Load(session, inputs, expected)
        trials = Trials(lab, session, load, strike)
        load.start()
        done = []
        for number in range(arguments.trials):
            done.append(trials.run())
            say(f"{name} {strike} {number}: {done[-1]}")
        load.end()
    return rows_of(f"{name}, {strike}", strike, done, load.answers)


def open_on(graph: Graph, lab: Lab, planner: str, options: PlanOptions | None = None) -> Session:
    """Return a session that recovers, of a plan for all of the lab's devices."""
    cost = CostModel(graph, lab.cluster)
    plan = find_plan(cost, planner=planner, options=options).plan
    replanner = Replanner(cost, plan, make_finder(plan, "best", 0.5))
    compiled = compile_plan(graph, plan, lab.cluster)
    watching = replace(LOSSES_ONLY, trial=0, least_gain=float("-inf"))
    return deploy(
        compiled,
        lab.endpoint,
        DeployOptions(trace=False, remembered=1000),
        replan=replanner.recover,
        adapting=(replanner, watching),
    )


def rows_of(case: str, strike: str, trials: Sequence[Trial], answers: Answers) -> list[Row]:
    """Return what came of some trials."""
    outages = [trial.outage_s for trial in trials]
    median_s = statistics.median(outages)
    median = at_most if strike == "kill" else None
    lost = answers.asked - len(answers.times)
    return [
        median(f"{case}: outage, median", "s", median_s, MEDIAN_S)
        if median
        else shown(f"{case}: outage, median", "s", median_s),
        at_most(f"{case}: outage, worst of {len(trials)}", "s", max(outages), WORST_S[strike]),
        shown(f"{case}: searched, worst", "s", max(trial.search_s for trial in trials)),
        at_most(f"{case}: used again, worst", "s", max(trial.back_s for trial in trials), BACK_S),
        at_most(f"{case}: wrong of {len(answers.times)} answers", "", answers.wrong, 0),
        at_most(f"{case}: lost or doubled", "", abs(lost), 0),
    ]


def main() -> int:
    """Print what came of the trials."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", nargs="+", default=["resnet50", "vgg16"])
    parser.add_argument("--strikes", nargs="+", default=["kill"], choices=list(WORST_S))
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--planner", default="equal_rows")
    arguments = parser.parse_args()
    rows = [
        row
        for strike in arguments.strikes
        for name in arguments.models
        for row in measure(name, strike, arguments)
    ]
    return report(rows, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
