"""The soonest split of a network within memory and a bound on the sum of errors.

For each cut the widths are a multiple-choice problem with a limit on errors and one per working set
on memory; cuts that cannot be sooner than the best one found, however narrow, are passed over.

Source: the problem is AUTO-SPLIT's, equation 5; the paper solves it by Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from partita.planners.edgecloud.choices import choose_exactly
from partita.planners.edgecloud.knapsack import Floats
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Candidate, Split, SplitProblem
from partita.planners.pricing.budget import is_never_over

#: Part by which the seconds before a cut may be above the least.
GAP = 1e-4
#: Part by which seconds may be above a split's for less error, and error above the least there is.
SLACK, ERROR_GAP = 0.01, 0.05
#: What is taken of each limit, by layer and widths, and the limits of the sums.
Limits = tuple[list[Floats], list[float]]


def soonest_split(problem: SplitProblem, most_error: float) -> Candidate:
    """The split of least latency; all in the cloud, without error, if nothing is sooner.

    Args:
        most_error: Bound on the sum of errors.
    """
    best = Candidate(problem.latency_s(CLOUD_ONLY), 0.0, CLOUD_ONLY)
    return SoonestSplit([problem]).find(most_error, best) or best


class SoonestSplit:
    """The soonest split of one network between devices of several choices.

    Args:
        problems: One per choice.
        is_over: Whether time is, after which no further cut is looked at.
    """

    def __init__(
        self, problems: Sequence[SplitProblem], is_over: Callable[[], bool] = is_never_over
    ) -> None:
        self._problems, self._is_over = problems, is_over
        self._places = sorted(
            (_floor_s(problem, cut, _costs(problem, cut)), number, cut)
            for number, problem in enumerate(problems)
            for cut in range(problem.first + 1, len(problem.network.layers) + 1)
            if problem.is_feasible(
                replace(Split.uniform(cut, problem.widths[0]), first=problem.first)
            )
        )

    def find(self, most_error: float, best: Candidate | None = None) -> Candidate | None:
        """The split of least latency; None where none is sooner than ``best``.

        Args:
            most_error: Bound on the sum of errors.
        """
        found, least_s = None, inf if best is None else best.latency_s
        for floor_s, number, cut in self._places:
            if floor_s >= least_s or self._is_over():
                break
            split = soonest_at(self._problems[number], cut, most_error)
            if split is not None and split.latency_s < least_s:
                found, least_s = split, split.latency_s
        return found

    def refine(self, found: Candidate) -> Candidate | None:
        """The split of least error at the cut of another that takes hardly longer.

        Of many splits that are as soon the solver finds any one: where the edge takes the same time
        whatever the bits, layers lose accuracy for nothing. None where time is over, too.
        """
        if self._is_over():
            return None
        problem = next(p for p in self._problems if p.first == found.split.first)
        return least_error_at(problem, found.split.cut, (1 + SLACK) * found.latency_s)


def soonest_at(problem: SplitProblem, cut: int, most_error: float) -> Candidate | None:
    """The soonest split at one cut; None where none keeps to the limits."""
    costs = _costs(problem, cut)
    uses, most = _memory_limits(problem, cut)
    if most_error < inf:
        uses.append(_errors(problem, cut))
        most.append(most_error)
    return _choose(problem, cut, costs, (uses, most), GAP)


def least_error_at(problem: SplitProblem, cut: int, most_s: float) -> Candidate | None:
    """The split of least error at one cut that takes no longer; None where none keeps to limits."""
    costs = _costs(problem, cut)
    uses, most = _memory_limits(problem, cut)
    is_there = np.isfinite(costs)
    uses.append(np.where(is_there, costs, 0.0))
    most.append(most_s - _fixed_s(problem, cut))
    errors = np.where(is_there, _errors(problem, cut), inf)
    return _choose(problem, cut, errors, (uses, most), ERROR_GAP)


def _choose(
    problem: SplitProblem,
    cut: int,
    costs: Floats,
    limits: Limits,
    gap: float,
) -> Candidate | None:
    count, (uses, most) = len(problem.widths), limits
    flat = [use.reshape(cut, count * count) for use in uses]
    chosen = choose_exactly(costs.reshape(cut, count * count), flat, most, gap=gap)
    if chosen is None:
        return None
    weights, made = np.divmod(np.array(chosen, int), count)
    weight_bits, made_bits = (tuple(problem.widths[n] for n in bits) for bits in (weights, made))
    split = Split(cut, weight_bits, made_bits, problem.first)
    return Candidate(problem.latency_s(split), problem.error(split), split)


def _costs(problem: SplitProblem, cut: int) -> Floats:
    """Seconds by layer, width of weights and width of what it makes, its sending among them.

    A layer without weights has one width of weights alone, so that nothing is tried twice.
    """
    widths, network = np.array(problem.widths), problem.network
    costs = problem.edge_s[:cut].copy()
    for tensor in network.crossing[cut]:
        if network.makers[tensor] >= 0:
            bits = network.sizes[tensor] * widths
            costs[network.makers[tensor]] += bits * problem.send_s_per_bit
    for layer in range(cut):
        if not network.weights[layer]:
            costs[layer, 1:] = inf
    return costs


def _errors(problem: SplitProblem, cut: int) -> Floats:
    """Errors by layer, width of weights and width of what it makes."""
    errors: Floats = problem.weight_errors[:cut, :, None] + problem.activation_errors[:cut, None, :]
    return errors


def _floor_s(problem: SplitProblem, cut: int, costs: Floats) -> float:
    """Seconds that no split at a cut falls below."""
    return float(costs.reshape(cut, -1).min(axis=1).sum()) + _fixed_s(problem, cut)


def _fixed_s(problem: SplitProblem, cut: int) -> float:
    """Seconds of a cut that widths change nothing of."""
    inputs = (t for t in problem.network.crossing[cut] if problem.network.makers[t] < 0)
    sent = sum(problem.network.sizes[t] for t in inputs) * problem.network.input_bits
    return float(sent * problem.send_s_per_bit + problem.rest_s[cut])


def _memory_limits(problem: SplitProblem, cut: int) -> Limits:
    """Bits of weights and each working set, by layer and widths, and what they may be together."""
    network, widths = problem.network, np.array(problem.widths, float)
    uses: list[Floats] = []
    most: list[float] = []
    for start, stop, room_bits in problem.rooms(cut):
        if room_bits == inf:
            continue
        if problem.held is not None:
            weights = np.zeros((cut, len(widths), len(widths)))
            weights[start:stop] = problem.held.weights[start:stop]
            uses.append(weights)
            most.append(room_bits - problem.held.beside(start, stop))
            continue
        held = np.zeros(cut)
        held[start:stop] = network.weights[start:stop]
        elements, fixed = network.working_elements(stop, start)
        elements = np.pad(elements, ((0, 0), (0, cut - stop)))
        weights = np.outer(held, widths)[:, :, None]
        uses += [weights + np.outer(row, widths)[:, None, :] for row in elements]
        most += [room_bits - float(bits) for bits in fixed]
    return uses, most
