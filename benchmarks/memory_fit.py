"""Whether ``best`` finds a plan wherever one fits in memory.

Drawn networks of at most six layers on devices whose memory together, beside the workers
themselves, is 1.1 to 2 times the weights, unevenly spread. The oracle tries all cuts into ranges,
each whole on any device, and layers with their output channels divided in quarters among devices in
every way, and ends at the first plan that fits. Then three real networks on devices none of which
holds them.

    python -m benchmarks.memory_fit [--cases 200] [--json]
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from onnx import helper
from tests.planners.fakes import conv, dense, make_graph

from benchmarks.harness import Row, make_parser, report, say
from partita.cluster import Cluster, Device
from partita.cost import CostModel, MemoryUse
from partita.cost.memory import one_by_one
from partita.errors import InfeasibleError, OverfullError
from partita.graph import Graph, load_graph
from partita.planners import DraftStage, Evaluator, PlanOptions, find_plan
from partita.planners.drafts.draft import Draft
from partita.planners.search.exhaustive import divisions
from partita.zoo import build_model

MOST_LAYERS = 6
#: Memory of all devices over the weights, beside what workers themselves take.
LEAST_ROOM, MOST_ROOM = 1.1, 2.0
#: Stages that the oracle looks at in one case, and plans that it prices; beyond, it is undecided.
MOST_STAGES, MOST_PRICED = 200_000, 3_000
OPTIONS = PlanOptions(most_s=1e6, max_evaluations=400)
#: Networks that no single device holds: devices, and megabytes of each; a pair of ranges of
#: MobileNet-v2 takes 14.83 MB at least.
NAMED = {"mobilenet_v2": (2, 16.0), "vgg16": (4, 300.0), "resnet50": (6, 61.0)}


def draw_network(rng: random.Random) -> Graph:
    """Return convolutions, one of them perhaps with a residual sum, and dense layers after them."""
    layers = rng.randint(2, MOST_LAYERS)
    convs = rng.randint(1, layers)
    size = rng.choice((2, 4))
    before, source, parts = rng.choice((3, 64)), "x", list[object]()
    shape = (1, before, size, size)
    for number in range(convs):
        after, kernel = rng.choice((64, 128, 256, 512)), rng.choice((1, 3))
        parts += conv(f"c{number}", source, f"t{number}", (after, before, kernel, kernel))
        source = f"t{number}"
        if number and before == after and rng.random() < 0.5:
            parts += [helper.make_node("Add", [source, f"t{number - 1}"], [f"s{number}"])]
            source = f"s{number}"
        before = after
    width = before * size * size
    if convs < layers:
        parts += [helper.make_node("Flatten", [source], ["flat"])]
        source = "flat"
    for number in range(convs, layers):
        after = rng.choice((64, 256, 1024))
        parts += dense(f"d{number}", source, f"t{number}", (width, after))
        width, source = after, f"t{number}"
    return make_graph(parts, {"x": shape}, [source])


def draw_cost(seed: int) -> CostModel:
    """Return a drawn network on drawn devices."""
    rng = random.Random(seed)
    graph = draw_network(rng)
    devices = rng.randint(2, 8)
    roomy = CostModel(graph, fleet([10**9]))
    whole = least_use(Evaluator(roomy, PlanOptions()))
    shares = [rng.uniform(0.3, 1.0) for _ in range(devices)]
    total = whole.weights * rng.uniform(LEAST_ROOM, MOST_ROOM)
    sizes = [whole.overhead + int(total * share / sum(shares)) for share in shares]
    return CostModel(graph, fleet(sizes))


def fleet(sizes: Sequence[int]) -> Cluster:
    """Return devices of these bytes of memory."""
    devices = [
        Device(f"d{number}", kind="raspberry-pi-4", memory_bytes=size)
        for number, size in enumerate(sizes)
    ]
    return Cluster.of(devices, bandwidth_bytes_per_s=25e6, latency_s=1e-3)


def least_use(evaluator: Evaluator) -> MemoryUse:
    """Return what all layers take as one fragment."""
    return evaluator.ranges.memory(0, len(evaluator.outline), evaluator.devices[0])


class UndecidedError(Exception):
    """The oracle gave up."""


class Oracle:
    """Tries all plans until one fits.

    A device holds at least the weights of all its parts, and for its largest part what that reads
    and makes: beginnings that are too large so already are dropped.
    """

    def __init__(self, evaluator: Evaluator, most_stages: int = MOST_STAGES) -> None:
        self._evaluator = evaluator
        self._most_stages = most_stages
        self._outline = evaluator.outline
        self._sizes = {d: evaluator.cluster.device(d).memory_bytes for d in evaluator.devices}
        self._stages = self._priced = 0
        self._known: dict[tuple[object, ...], MemoryUse] = {}
        self._ways: dict[tuple[int, int], list[DraftStage]] = {}

    def find(self) -> Draft | None:
        """Return a draft that fits, None where there is none.

        Raises:
            UndecidedError: There are too many to try.
        """
        return self._extend((), dict.fromkeys(self._sizes, ()))

    def _extend(self, draft: Draft, uses: dict[str, tuple[MemoryUse, ...]]) -> Draft | None:
        start = draft[-1].stop if draft else 0
        if start == len(self._outline):
            self._priced += 1
            if self._priced > MOST_PRICED:
                raise UndecidedError
            return draft if self._evaluator.score(draft)[0] < inf else None
        for stop in range(len(self._outline), start, -1):
            for stage in self._possible(start, stop):
                self._stages += 1
                if self._stages > self._most_stages:
                    raise UndecidedError
                if self._is_twin(stage, uses):
                    continue
                more = dict(uses)
                for number, device in enumerate(stage.devices):
                    more[device] = (*more[device], self._memory(stage, number))
                if all(one_by_one(more[d]).total <= self._sizes[d] for d in stage.devices):
                    found = self._extend((*draft, stage), more)
                    if found is not None:
                        return found
        return None

    def _is_twin(self, stage: DraftStage, uses: dict[str, tuple[MemoryUse, ...]]) -> bool:
        """Whether a whole stage could as well be on an earlier device, as empty and as large."""
        (device, *others) = stage.devices
        if others or uses[device] or device == self._evaluator.requester:
            return False
        earlier = itertools.takewhile(lambda name: name != device, self._sizes)
        return any(
            not uses[name]
            and self._sizes[name] == self._sizes[device]
            and name != self._evaluator.requester
            for name in earlier
        )

    def _possible(self, start: int, stop: int) -> list[DraftStage]:
        if (start, stop) not in self._ways:
            self._ways[start, stop] = list(self._make(start, stop))
        return self._ways[start, stop]

    def _make(self, start: int, stop: int) -> Iterator[DraftStage]:
        devices = tuple(self._sizes)
        for device in devices:
            yield DraftStage(start, stop, "none", (device,))
        channels = self._outline.channels(start, stop) if stop == start + 1 else 0
        parts = min(4, channels)
        for cuts in divisions(parts, len(devices)):
            kept = [number for number in range(len(devices)) if cuts[number] < cuts[number + 1]]
            ends = tuple(cut * channels // parts for cut in (*(cuts[n] for n in kept), cuts[-1]))
            names = tuple(devices[number] for number in kept)
            yield DraftStage(start, stop, "output_channels", names, ends)

    def _memory(self, stage: DraftStage, number: int) -> MemoryUse:
        key = (stage.start, stage.stop, stage.cuts[number : number + 2])
        if key not in self._known:
            boxes = self._evaluator.problem.lowering.boxes_of(stage, number)
            work = self._outline.works.stage(self._outline.layers(stage.start, stage.stop), boxes)
            self._known[key] = self._evaluator.cost.work_memory(work)
        return self._known[key]


@dataclass(frozen=True)
class Outcome:
    """One case.

    Attributes:
        ours: Whether ``best`` found a plan.
        oracle: Whether the oracle did; None where it gave up.
        is_proven: Whether ``best`` says that there is none.
    """

    seed: int
    ours: bool
    oracle: bool | None
    is_proven: bool


def judge(seed: int, options: PlanOptions = OPTIONS, *, most_stages: int = MOST_STAGES) -> Outcome:
    """Return what ``best`` and the oracle find in one case."""
    cost = draw_cost(seed)
    ours, is_proven = True, False
    try:
        find_plan(cost, options=options)
    except InfeasibleError as error:
        ours, is_proven = False, not isinstance(error, OverfullError)
    try:
        oracle = Oracle(Evaluator(cost, PlanOptions()), most_stages).find() is not None
    except UndecidedError:
        return Outcome(seed, ours, None, is_proven)
    return Outcome(seed, ours, oracle, is_proven)


def named_row(name: str) -> Row:
    """Return whether one of the real networks is planned, with the latency of its plan."""
    devices, megabytes = NAMED[name]
    graph = load_graph(build_model(name), name=name)
    cost = CostModel(graph, fleet([int(megabytes * 1e6)] * devices))
    case = f"{name} on {devices} of {megabytes:g} MB"
    try:
        result = find_plan(cost, options=PlanOptions(most_s=60.0))
    except InfeasibleError as error:
        say(f"{name}: {error}")
        return Row(case, "s", inf, None, None, "a plan", False)
    most = max(result.estimate.memory_bytes.values())
    say(f"{name}: {result.latency_s:.3f} s, at most {most / 1e6:.1f} MB on a device")
    return Row(case, "s", result.latency_s, None, None, "a plan", True)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--cases", type=int, default=200)
    args = parser.parse_args()
    outcomes = [judge(seed) for seed in range(args.cases)]
    both = Counter((one.ours, one.oracle) for one in outcomes)
    for (ours, oracle), count in sorted(both.items(), key=str):
        say(f"best finds a plan: {ours}; the oracle: {oracle}; {count} cases")
    missed = [one.seed for one in outcomes if one.oracle and not one.ours]
    wrong = [one.seed for one in outcomes if one.oracle and one.is_proven]
    say(f"missed: seeds {missed}; proven impossible though possible: seeds {wrong}")
    possible = sum(one.oracle is True for one in outcomes)
    found = sum(one.oracle is True and one.ours for one in outcomes)
    share = found / max(1, possible)
    rows = [Row("memory fits, drawn networks", "plans", found, possible, share, "1", share == 1.0)]
    rows += [named_row(name) for name in NAMED]
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
