"""Runs that lose devices, cables and the speed of links: every answer must still come, once.

Each case starts its own workers, runs a small network divided over all of them, strikes, and waits
until the rest has answered for a while. A case is survived when every request has one right
answer, in order, and nothing else than what was struck was given up.

    python -m benchmarks.chaos [--kinds single double cable slow] [--first 0] [--count 5]
                               [--keep FILE] [--json]

Kinds: ``single`` and ``double`` kill processes, or freeze one, or pull two cables, at once or 0.7 s
apart; ``cable`` sets a device's link down without a word to anybody; ``slow`` leaves a link between
two devices 64 kbit/s. With ``--keep`` results are added to a file, and cases that it has are not
run again: a long campaign may be run in parts. Namespaces need root and iproute2.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.harness import Row, make_parser, open_session, report, say
from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.errors import PartitaError
from partita.graph import Graph, load_graph
from partita.lab import Lab, LabOptions, start_lab
from partita.lab.netns import Namespaces
from partita.leader import DeployOptions, Session, deploy
from partita.plan import Identity, Plan, Shard, Stage
from partita.planners import PlanOptions, find_plan

NAMES = ("d0", "d1", "d2", "d3")
#: Cases of each kind in a full campaign.
CAMPAIGN = {"single": 25, "double": 10, "cable": 10, "slow": 10}
#: Of a struck run, on four workers that share two cores.
MOST_GAP_S = 6.0
SLOW_BIT_PER_S = 64_000
#: Of links, in bytes per second, until they are struck.
RATE = 25e6
#: An emulated link that is slow breaks nothing: a request waits on it until this deadline.
_DEADLINE_S = 5.0
#: A strike comes after so many answers, drawn anew for each case.
_EARLIEST, _LATEST = 20, 80
#: The run goes on for so many answers after all that was struck is done without.
_AFTER = 60
#: A strike that nobody has noticed after so long has missed.
_PATIENCE_S = 20.0
_APART_S = 0.7
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        kind: What happens: ``single``, ``double``, ``cable`` or ``slow``.
        network: Of the lab.
        number: Its number among those of its kind, which is also the seed of what is drawn.
    """

    kind: str
    number: int
    network: str

    @property
    def name(self) -> str:
        """For tables, and the key in the file of results."""
        return f"{self.kind} {self.number} {self.network}"


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        error: Why the run ended early; empty where it did not.
        gap_s: The longest time without an answer from the strike on.
        given_up: Devices and links that the run went on without.
        struck: What was struck.
        wrong: Answers that are not those of their inputs: lost, doubled, reordered or false.
    """

    case: str
    struck: list[str] = field(default_factory=list)
    error: str = ""
    gap_s: float = 0.0
    answers: int = 0
    wrong: int = 0
    given_up: list[str] = field(default_factory=list)

    @property
    def survived(self) -> bool:
        """Whether all is as it should be."""
        return not self.error and not self.wrong and self.given_up == self.struck


def list_cases(kinds: list[str]) -> list[Case]:
    """The campaign's cases: processes of this machine and namespaces in turns where both can."""
    return [
        Case(kind, number, "user" if number % 2 == 0 and kind != "cable" else "netns")
        for kind in kinds
        for number in range(CAMPAIGN[kind])
    ]


def make_model() -> onnx.ModelProto:
    """Eight convolutions over 64 x 64 positions: some milliseconds on one core."""
    rng = np.random.default_rng(0)
    channels = [3, 16, 16, 16, 16, 16, 16, 16, 4]
    nodes, weights = [], []
    for n, (before, after) in enumerate(pairwise(channels)):
        spread = 1 / np.sqrt(9 * before)
        array = (spread * rng.standard_normal((after, before, 3, 3))).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{n}"))
        nodes.append(helper.make_node("Conv", [f"t{n}", f"w{n}"], [f"t{n + 1}"], pads=[1, 1, 1, 1]))
    shapes = {"t0": [1, 3, 64, 64], f"t{len(nodes)}": [1, 4, 64, 64]}
    given, got = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    graph = helper.make_graph(nodes, "chaos", [given], [got], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pipeline_plan(graph: Graph, cluster: Cluster) -> Plan:
    """Layers dealt out to the devices in order, as stages that hand whole tensors on."""
    names, devices = [layer.name for layer in graph.layers], cluster.names
    each = -(-len(names) // len(devices))
    stages = tuple(
        Stage(f"s{n}", tuple(names[n * each : (n + 1) * each]), "none", (Shard(device),))
        for n, device in enumerate(devices)
        if names[n * each : (n + 1) * each]
    )
    model, where = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return Plan(model=model, cluster=where, stages=stages, planner="pipeline")


class Strikes:
    """What is done to the workers of a case.

    Args:
        lab: The running workers.
        case: Says what, and seeds the choice of whom.
    """

    def __init__(self, lab: Lab, case: Case) -> None:
        self._lab, self._case = lab, case
        draw = random.Random(case.number)
        victims = draw.sample(NAMES[1:], 2)
        self.at_answer = draw.randint(_EARLIEST, _LATEST)
        count = 2 if case.kind == "double" else 1
        self.struck = ["d1 - d2"] if case.kind == "slow" else sorted(victims[:count])

    def strike(self, session: Session) -> None:
        """Do it; returns when it is done."""
        if self._case.kind == "slow" and self._lab.net is None:
            session.begin_traces()
        else:
            getattr(self, f"_{self._case.kind}")()

    def _single(self) -> None:
        # Every third worker hangs instead.
        (Lab.freeze if self._case.number % 3 == 2 else Lab.kill)(self._lab, self.struck[0])

    def _double(self) -> None:
        # At once or apart, and of namespaces some by their cables.
        strike = (
            self._lab.kill if self._lab.net is None or self._case.number % 3 != 1 else self._pull
        )
        strike(self.struck[0])
        if self._case.number // 2 % 2:
            time.sleep(_APART_S)
        strike(self.struck[1])

    @property
    def _net(self) -> Namespaces:
        if self._lab.net is None:
            raise RuntimeError("cables and rates are those of namespaces")
        return self._lab.net

    def _cable(self) -> None:
        self._pull(self.struck[0])

    def _pull(self, device: str) -> None:
        self._net.set_cable(device, plugged=False)

    def _slow(self) -> None:
        self._net.set_rate("d1", "d2", SLOW_BIT_PER_S / 8)


class Run:
    """One case on running workers.

    Args:
        lab: The workers.
        case: What happens to them.
        graph: The network.
        whole: The whole network's answers.
    """

    def __init__(self, lab: Lab, case: Case, graph: Graph, whole: Callable[..., Any]) -> None:
        self._strikes = Strikes(lab, case)
        self._lab, self._case, self._graph, self._whole = lab, case, graph, whole
        self._struck_s = 0.0
        self._times: list[float] = []

    def outcome(self) -> Outcome:
        """Run, strike, and look at the answers."""
        outcome = Outcome(self._case.name, self._strikes.struck)
        cost = CostModel(self._graph, self._lab.cluster)
        slow = self._case.kind == "slow"
        if slow or self._case.number % 4 == 1:
            plan = pipeline_plan(self._graph, self._lab.cluster)
        else:
            plan = find_plan(cost, planner="equal_rows", options=PlanOptions(in_flight=2)).plan
        finder = make_finder(plan, "best" if slow else "equal_rows", 0.5)
        replanner = Replanner(cost, plan, finder)
        compiled = compile_plan(self._graph, plan, self._lab.cluster)
        options = DeployOptions(deadline_s=_DEADLINE_S)
        with deploy(compiled, self._lab.endpoint, options, replan=replanner.recover) as session:
            try:
                self._watch(session, outcome)
            except PartitaError as error:
                outcome.error = error.message
            outcome.given_up = given_up(session)
        later = [at_s for at_s in self._times if at_s >= self._struck_s]
        edges = [self._struck_s, *later]
        gaps = [b - a for a, b in pairwise(edges)]
        outcome.gap_s = max(gaps, default=time.monotonic() - self._struck_s)
        return outcome

    def _watch(self, session: Session, outcome: Outcome) -> None:
        for number, answer in enumerate(session.iterate(self._inputs(session))):
            self._times.append(time.monotonic())
            outcome.answers += 1
            (expected,) = self._whole(draw_input(number))
            (got,) = answer.values()
            outcome.wrong += bool(np.abs(got - expected).max() > _TOLERANCE)

    def _inputs(self, session: Session) -> Iterator[Mapping[str, Any]]:
        """Inputs until the run has gone on for long enough after the recovery."""
        number, left = 0, _AFTER
        while left:
            if len(self._times) >= self._strikes.at_answer and not self._struck_s:
                self._struck_s = time.monotonic()
                self._strikes.strike(session)
            yield draw_input(number)
            number += 1
            left -= bool(self._struck_s) and self._is_over(session)

    def _is_over(self, session: Session) -> bool:
        """Whether all that was struck is done without, or nothing will come of it any more."""
        is_late = time.monotonic() - self._struck_s > _PATIENCE_S
        return is_late or set(given_up(session)) >= set(self._strikes.struck)


def given_up(session: Session) -> list[str]:
    """The devices and links that a session goes on without."""
    lost = session.lost
    return sorted([*lost.devices, *(" - ".join(pair) for pair in lost.links)])


def draw_input(number: int) -> dict[str, Any]:
    """The input of a request: no two are alike."""
    rng = np.random.default_rng(number)
    return {"t0": rng.standard_normal((1, 3, 64, 64), np.float32)}


def make_cluster(case: Case) -> Cluster:
    """Four boards; where links are emulated, a slow one has its rates in a trace."""
    devices = [Device(name, kind="raspberry-pi-4") for name in NAMES]
    cluster = Cluster.of(devices, latency_s=0.0)
    if (case.kind, case.network) != ("slow", "user"):
        return cluster
    slow = ((0.0, RATE), (0.01, SLOW_BIT_PER_S / 8))
    links = [
        replace(link, trace=slow) if link.pair == ("d1", "d2") else link for link in cluster.links
    ]
    return replace(cluster, links=tuple(links))


def run_case(case: Case) -> Outcome:
    """One case from the start of its workers to their end."""
    model = make_model()
    graph = load_graph(model)
    cluster = make_cluster(case)
    whole = open_session(model, 1)
    with (
        tempfile.TemporaryDirectory() as store,
        start_lab(cluster, LabOptions(store=Path(store), network=case.network)) as lab,
    ):
        return Run(lab, case, graph, whole).outcome()


def read_kept(path: Path | None) -> dict[str, Outcome]:
    """The outcomes in a file of results, by case."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {row["case"]: Outcome(**row) for row in map(json.loads, lines)}


def rows_of(outcomes: list[Outcome], kinds: list[str]) -> list[Row]:
    """Per kind: how many survived, answers that were not right, and the longest gap."""
    rows = []
    for kind in kinds:
        group = [outcome for outcome in outcomes if outcome.case.startswith(f"{kind} ")]
        if not group:
            continue
        good = sum(outcome.survived for outcome in group)
        wrong = sum(outcome.wrong for outcome in group)
        target = f"all of {len(group)} survived"
        rows.append(
            Row(f"{kind}: runs", "runs", good, len(group), None, target, good == len(group))
        )
        rows.append(Row(f"{kind}: wrong answers", "", wrong, None, None, "none", not wrong))
        gap_s = max(outcome.gap_s for outcome in group)
        met = gap_s <= MOST_GAP_S if kind in ("cable", "slow") else None
        target = "" if met is None else f"<= {MOST_GAP_S:g} s"
        rows.append(Row(f"{kind}: longest gap", "s", gap_s, None, None, target, met))
    return rows


def main() -> int:
    """Run the chosen part of the campaign and print what came of it."""
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kinds", nargs="+", default=list(CAMPAIGN), choices=list(CAMPAIGN))
    parser.add_argument("--first", type=int, default=0, help="number of each kind's first case")
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind, at most")
    parser.add_argument("--most-s", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--keep", type=Path, help="file of results to add to")
    arguments = parser.parse_args()
    chosen = range(arguments.first, arguments.first + arguments.count)
    cases = list_cases(arguments.kinds)
    kept = read_kept(arguments.keep)
    end_s = time.monotonic() + arguments.most_s
    for case in cases:
        if case.number not in chosen or case.name in kept or time.monotonic() > end_s:
            continue
        outcome = kept[case.name] = run_case(case)
        verdict = "survived" if outcome.survived else f"FAILED {outcome}"
        say(f"{case.name}: {verdict}, {outcome.answers} answers, gap {outcome.gap_s:.1f} s")
        if arguments.keep is not None:
            with arguments.keep.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    outcomes = [kept[case.name] for case in cases if case.name in kept]
    return report(rows_of(outcomes, arguments.kinds), as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
