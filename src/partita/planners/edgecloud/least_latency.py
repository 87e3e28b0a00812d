"""The soonest split of a network within memory and a bound on the sum of errors.

For each cut the widths are a multiple-choice problem with a limit on errors and one per working set
on memory; cuts that cannot be sooner than the best one found, however narrow, are passed over.

Source: the problem is AUTO-SPLIT's, equation 5; the paper solves it by Algorithm 1.
"""

from __future__ import annotations

from math import inf

import numpy as np

from partita.planners.edgecloud.choices import choose_exactly
from partita.planners.edgecloud.knapsack import Floats
from partita.planners.edgecloud.split_problem import CLOUD_ONLY, Candidate, Split, SplitProblem

#: Part by which the seconds before a cut may be above the least.
GAP = 1e-4


def soonest_split(problem: SplitProblem, most_error: float) -> Candidate:
    """The split of least latency; all in the cloud, without error, if nothing is sooner.

    Args:
        most_error: Bound on the sum of errors.
    """
    best = Candidate(problem.latency_s(CLOUD_ONLY), 0.0, CLOUD_ONLY)
    cuts = range(1, len(problem.network.layers) + 1)
    fits = [c for c in cuts if problem.is_feasible(Split.uniform(c, problem.widths[0]))]
    costs = {cut: _costs(problem, cut) for cut in fits}
    floors_s = {cut: _floor_s(problem, cut, costs[cut]) for cut in costs}
    for cut in sorted(costs, key=lambda cut: (floors_s[cut], cut)):
        if floors_s[cut] >= best.latency_s:
            break
        found = soonest_at(problem, cut, most_error, costs[cut])
        if found is not None and found.latency_s < best.latency_s:
            best = found
    return best


def soonest_at(
    problem: SplitProblem, cut: int, most_error: float, costs: Floats | None = None
) -> Candidate | None:
    """The soonest split at one cut; None where none keeps to the limits."""
    costs = _costs(problem, cut) if costs is None else costs
    count = len(problem.widths)
    uses, most = _memory_limits(problem, cut)
    if most_error < inf:
        uses.append(problem.weight_errors[:cut, :, None] + problem.activation_errors[:cut, None, :])
        most.append(most_error)
    flat = [use.reshape(cut, count * count) for use in uses]
    chosen = choose_exactly(costs.reshape(cut, count * count), flat, most, gap=GAP)
    if chosen is None:
        return None
    weights, made = np.divmod(np.array(chosen, int), count)
    split = Split(cut, *(tuple(problem.widths[n] for n in bits) for bits in (weights, made)))
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


def _floor_s(problem: SplitProblem, cut: int, costs: Floats) -> float:
    """Seconds that no split at a cut falls below."""
    inputs = (t for t in problem.network.crossing[cut] if problem.network.makers[t] < 0)
    sent = sum(problem.network.sizes[t] for t in inputs) * problem.network.input_bits
    narrowest = costs.reshape(cut, -1).min(axis=1).sum()
    return float(narrowest + sent * problem.send_s_per_bit + problem.rest_s[cut])


def _memory_limits(problem: SplitProblem, cut: int) -> tuple[list[Floats], list[float]]:
    """Bits of weights and each working set, by layer and widths, and what they may be together."""
    if problem.edge_memory_bits == inf:
        return [], []
    widths, network = np.array(problem.widths, float), problem.network
    weights = np.outer(network.weights[:cut], widths)[:, :, None]
    elements, fixed = network.working_elements(cut)
    uses = [weights + np.outer(row, widths)[:, None, :] for row in elements]
    return uses, [problem.edge_memory_bits - float(bits) for bits in fixed]
