"""CoEdge: layer by layer, with the one vector of shares that a linear program finds.

Source: Zeng et al., "CoEdge: Cooperative DNN inference with adaptive workload partitioning over
heterogeneous edge devices", Transactions on Networking 2020; as a baseline in DistrEdge, section
V-A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from scipy.optimize import linprog

from partita.compile import build_layout
from partita.errors import InfeasibleError, PlanError
from partita.planners.drafts.draft import Draft, DraftStage, whole_stages
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.published.linear_view import (
    LinearView,
    decide,
    divide_layers,
    last_rows,
    layer_work,
)
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.regions import Region

#: Layers that together have no more of the work than this do not decide who is dropped: else the
#: last maps of a detector, a few rows high, would drop nearly everybody. Not tuned.
TAIL_WORK = 0.01
#: A share this little below the halo still rounds to enough rows. Not tuned.
SHORT = 0.01


@dataclass(frozen=True)
class CoEdgeSettings:
    """What the original leaves to its user.

    Attributes:
        deadline_s: For the energy objective: most seconds of one request, as the method's linear
            model sees them; any when None.
    """

    deadline_s: float | None = None


SETTINGS = CoEdgeSettings()


@dataclass(frozen=True)
class EnergyGoal:
    """The original's goal: the least energy within a deadline.

    Attributes:
        watts: Of each device when it computes.
        deadline_s: Most linear seconds of one request; any when None.
    """

    watts: dict[str, float]
    deadline_s: float | None


@dataclass(frozen=True)
class Halo:
    """What one layer reads beyond a device's own rows.

    Attributes:
        work: Of the whole layer.
        above_bytes: From the device before.
        below_bytes: From the device after.
        share: The least part of the map that a neighbour must own to be the only one asked.
    """

    work: float
    above_bytes: float
    below_bytes: float
    share: float


@dataclass(frozen=True)
class Answer:
    """Shares of all devices of a view, and the linear seconds of a request with them."""

    shares: tuple[float, ...]
    seconds: float


@register("coedge", cost="published", settings=SETTINGS)
def plan_coedge(evaluator: Evaluator) -> Chosen:
    """CoEdge: layer by layer in shares that balance linear computing and network.

    Sees capabilities and bandwidths, and with the ``energy`` objective the devices' power: it then
    makes the energy of computing small, as the original does, with the setting ``deadline_s`` as
    limit on linear latency. A device whose share is less than its neighbours' halo is dropped, so
    that only neighbours talk. The energy of radios, which the original counts, is not known here.

    Raises:
        PlanError: The deadline is no number of seconds.
        InfeasibleError: No device can hold its part, or no shares meet the deadline.
    """
    deadline_s = read_settings(SETTINGS, "coedge", evaluator.options.method).deadline_s
    if deadline_s is not None and not 0 < deadline_s < float("inf"):
        raise PlanError(
            f"Setting 'coedge.deadline_s' is {deadline_s:g} s, must be above 0 s.",
            subject="coedge.deadline_s",
        )
    goal = None
    if evaluator.options.objective == "energy":
        watts = {device: find_watts(evaluator, device) for device in evaluator.devices}
        goal = EnergyGoal(watts, deadline_s)
    return decide(evaluator, lambda view: choose_draft(view, goal))


def choose_draft(view: LinearView, goal: EnergyGoal | None = None) -> Draft:
    """Every layer divided in the shares of the linear program.

    Raises:
        InfeasibleError: No shares meet the deadline.
    """
    shares = find_shares(view, goal) if last_rows(view.outline) else ()
    active = [number for number, share in enumerate(shares) if share > 0]
    if not active:
        return whole_stages(view.outline, 0, len(view.outline), view.fastest)
    devices = [view.devices[number] for number in active]
    return divide_layers(view, devices, [shares[number] for number in active])


def find_shares(view: LinearView, goal: EnergyGoal | None = None) -> tuple[float, ...]:
    """The share of each device of the view, 0 for those that are dropped.

    Raises:
        InfeasibleError: No shares meet the deadline.
    """
    halos = list_halos(view)
    fastest = _drop_small(view, halos, None)
    if goal is None or fastest is None:
        return fastest.shares if fastest else ()
    if goal.deadline_s is not None and fastest.seconds > goal.deadline_s:
        raise InfeasibleError(
            f"CoEdge meets no deadline of {goal.deadline_s:g} s: by its linear model it needs"
            f" {fastest.seconds:.3g} s. Allow that much.",
            subject="coedge.deadline_s",
        )
    thrifty = _drop_small(view, halos, goal)
    return (thrifty or fastest).shares


def _drop_small(view: LinearView, halos: list[Halo], goal: EnergyGoal | None) -> Answer | None:
    """The answer in which all shares suffice for the halo; None if no shares do.

    The smallest share below the halo is dropped and the program solved again.
    """
    least = find_least_share(halos)
    active = list(range(len(view.devices)))
    while True:
        answer = _Program(view, halos, active).solve(goal)
        if answer is None:
            return None
        shares = answer.shares
        used = [number for number in active if shares[number] > 0]
        small = min(used, key=lambda number: (shares[number], number))
        if len(used) > 1 and shares[small] < least * (1 - SHORT):
            used.remove(small)
        if used == active:
            return answer
        active = used


class _Program:
    """The linear program of the devices that are left.

    Columns: the share of each device, then the seconds of sending the input, of each layer and of
    sending the last maps; a step is over when its last device is.

    Args:
        halos: Of each layer that is divided.
        active: Numbers of the devices of the view that are left.
    """

    def __init__(self, view: LinearView, halos: Sequence[Halo], active: Sequence[int]) -> None:
        self.view = view
        self.active = tuple(active)
        self.devices = [view.devices[number] for number in active]
        end = last_rows(view.outline)
        sent = view.crossing(end)
        image = view.crossing(0).gathered
        self.slopes = [[view.transfer_s(view.requester, d, image) for d in self.devices]]
        self.fixed = [[0.0] * len(self.devices)]
        for halo in halos:
            self.slopes.append([view.compute_s(d, halo.work) for d in self.devices])
            self.fixed.append([self._halo_s(halo, place) for place in range(len(self.devices))])
        self.slopes.append(
            [
                view.transfer_s(d, view.fastest, sent.gathered)
                + view.transfer_s(d, view.requester, sent.answered)
                for d in self.devices
            ]
        )
        self.fixed.append([0.0] * len(self.devices))
        rest_s = view.compute_s(view.fastest, view.work(end, len(view.outline)))
        self.rest_s = rest_s + view.transfer_s(view.fastest, view.requester, sent.late)

    def _halo_s(self, halo: Halo, place: int) -> float:
        """The seconds in which a device gets its halo from those before and after it."""
        seconds, device = 0.0, self.devices[place]
        if place > 0:
            seconds += self.view.transfer_s(self.devices[place - 1], device, halo.above_bytes)
        if place < len(self.devices) - 1:
            seconds += self.view.transfer_s(self.devices[place + 1], device, halo.below_bytes)
        return seconds

    def solve(self, goal: EnergyGoal | None) -> Answer | None:
        """The best shares; None where no shares meet the goal's deadline."""
        count, steps = len(self.devices), len(self.slopes)
        is_timed = goal is None or goal.deadline_s is not None
        unit_s = max(sum(column) for column in zip(*self.slopes, strict=True)) or 1.0
        limits = np.zeros((steps * count, count + steps))
        for step, slopes in enumerate(self.slopes):
            for place, slope in enumerate(slopes):
                limits[step * count + place, [place, count + step]] = slope / unit_s, -1.0
        most = -np.array(self.fixed).ravel() / unit_s
        times = np.array([0.0] * count + [1.0] * steps)
        aim = times
        if goal is not None:
            work = sum(np.array(self.slopes[1:-1]), np.zeros(count))
            watts = [goal.watts.get(device, 0.0) for device in self.devices]
            aim = np.array([*(work * watts / unit_s), *[0.0] * steps])
            if goal.deadline_s is not None:
                limits = np.vstack([limits, times])
                most = np.append(most, (goal.deadline_s - self.rest_s) / unit_s)
        if not is_timed:
            limits, most = limits[:0], most[:0]
        solution = linprog(
            aim, A_ub=limits, b_ub=most, A_eq=[[1.0] * count + [0.0] * steps], b_eq=[1.0]
        )
        if solution.status != 0:
            return None
        return self._answer(solution.x[:count])

    def _answer(self, solution: Sequence[float]) -> Answer:
        kept = [float(share) if share > 1e-9 else 0.0 for share in solution]
        shares = [0.0] * len(self.view.devices)
        for number, share in zip(self.active, kept, strict=True):
            shares[number] = share
        steps = zip(self.slopes, self.fixed, strict=True)
        seconds = sum(
            max(
                share * slope + fixed
                for share, slope, fixed in zip(kept, slopes, fixes, strict=True)
            )
            for slopes, fixes in steps
        )
        return Answer(tuple(shares), seconds + self.rest_s)


def list_halos(view: LinearView) -> list[Halo]:
    """The halo of every layer that is divided; of one tensor no row is counted twice."""
    outline = view.outline
    computed = {tensor for name in outline.order for tensor in outline.graph.layer(name).outputs}
    held: dict[str, tuple[float, float]] = {}
    halos = []
    for position in range(last_rows(outline)):
        work = layer_work(outline, position, macs=view.counts_macs)
        if outline.kinds[position] != "rows" or position in outline.pins:
            continue
        sums, share = [0.0, 0.0], 0.0
        for tensor, (height, *beyond) in find_beyond(view, position).items():
            before = held.get(tensor, (0.0, 0.0))
            share = max(share, *(rows / height for rows in beyond))
            if tensor in computed:
                for side, rows in enumerate(beyond):
                    extra = max(0.0, rows - before[side])
                    sums[side] += extra * view.sizes[tensor] / height
            held[tensor] = (max(before[0], beyond[0]), max(before[1], beyond[1]))
        halos.append(Halo(work, sums[0], sums[1], share))
    return halos


def find_beyond(view: LinearView, position: int) -> dict[str, tuple[int, float, float]]:
    """How many rows a layer reads above and below its own, where it is cut in the middle.

    Returns:
        Per tensor with rows: its height, and the rows above and below.
    """
    outline = view.outline
    layer = outline.graph.layer(outline.order[position])
    regions = outline.works.regions
    halves: list[dict[str, Region]] = [{}, {}]
    cut = 0.5
    for tensor in layer.outputs:
        whole, axis = regions.whole(tensor), outline.axes.axis(tensor)
        if axis is None:
            continue
        height = whole.shape[axis]
        middle = height // 2
        cut = middle / height
        for half, span in zip(halves, ((0, middle), (middle, height)), strict=True):
            half[tensor] = whole.with_axis(axis, span)
    first, second = (regions.walk(layer, half).needs for half in halves)
    beyond = {}
    for tensor in first.keys() & second.keys():
        axis = outline.axes.axis(tensor)
        if axis is not None:
            height = regions.whole(tensor).shape[axis]
            own = cut * height
            above = max(0.0, own - second[tensor].bounds[axis][0])
            below = max(0.0, first[tensor].bounds[axis][1] - own)
            beyond[tensor] = (height, above, below)
    return beyond


def find_least_share(halos: Sequence[Halo]) -> float:
    """The share below which a device is dropped: the halo's part of the lowest maps."""
    left = TAIL_WORK * sum(halo.work for halo in halos)
    for halo in sorted(halos, key=lambda halo: -halo.share):
        left -= halo.work
        if left < 0:
            return halo.share
    return 0.0


def find_watts(evaluator: Evaluator, device: str) -> float:
    """A device's power when it computes; 0 where it cannot be reached."""
    whole = (DraftStage(0, len(evaluator.outline), "none", (device,)),)
    plan = replace(evaluator.problem.plan(whole), keep_on={})
    try:
        layout = build_layout(evaluator.graph, plan, evaluator.cluster)
    except PlanError:
        return 0.0
    busy_s = sum(evaluator.cost.price(layout).compute_s.values())
    return evaluator.cost.energy_joules(layout) / busy_s if busy_s > 0 else 0.0
