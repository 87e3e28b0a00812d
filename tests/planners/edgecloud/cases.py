"""Drawn problems between an edge and a cloud, small enough to try everything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from random import Random

import numpy as np
from onnx import numpy_helper

from partita.graph import Graph
from partita.planners.edgecloud.min_cut import SharedTensor, TwoSides
from partita.planners.edgecloud.network import Network
from partita.planners.edgecloud.split_problem import Split, SplitProblem
from partita.quantisation import QuantisationData, collect_ranges, tabulate_errors
from tests.planners.fakes import conv, make_graph

WIDTHS = (2, 4, 8)


@cache
def quantised_chain(*channels: int, size: int = 16) -> tuple[Graph, QuantisationData]:
    """Return drawn convolutions of so many channels, and what samples say of them."""
    rng = np.random.default_rng(0)
    parts: list[object] = []
    for number, (before, after) in enumerate(pairwise(channels)):
        node, weights = conv(f"c{number}", f"t{number}", f"t{number + 1}", (after, before, 3, 3))
        drawn = rng.standard_normal((after, before, 3, 3)).astype(np.float32) / 10
        parts += [node, numpy_helper.from_array(drawn, weights.name)]  # type: ignore[attr-defined]
    graph = make_graph(parts, {"t0": (1, channels[0], size, size)}, [f"t{len(channels) - 1}"])
    specs = graph.input_specs
    samples = [
        {spec.name: rng.standard_normal(spec.shape).astype(np.float32) for spec in specs}
        for _ in range(3)
    ]
    ranges = collect_ranges(graph, samples)
    return graph, QuantisationData(tabulate_errors(graph, ranges, WIDTHS), ranges)


def draw_reads(rng: Random, count: int) -> list[set[int]]:
    """Return what each layer of a directed acyclic graph reads; -1 is the input."""
    reads = [{rng.randrange(-1, layer)} for layer in range(count)]
    for layer in range(count):
        reads[layer] |= {maker for maker in range(-1, layer) if rng.random() < 0.2}
    return reads


def draw_sides(rng: Random, count: int) -> TwoSides:
    """Return seconds of so many layers on two sides; some are equal, some layers are pinned."""
    reads = draw_reads(rng, count)

    def draw() -> float:
        return rng.choice((0.0, 1.0, rng.uniform(0, 3)))

    readers = {m: tuple(n for n in range(count) if m in reads[n]) for m in range(-1, count)}
    edge_s = [float("inf") if rng.random() < 0.05 else 2 * draw() for _ in range(count)]
    return TwoSides(
        edge_s=edge_s,
        cloud_s=[
            float("inf") if edge < float("inf") and rng.random() < 0.05 else draw()
            for edge in edge_s
        ],
        tensors=[SharedTensor(maker, those, draw()) for maker, those in readers.items() if those],
        edge_start_s=draw(),
        cloud_start_s=draw(),
    )


def least_by_trying(sides: TwoSides) -> float:
    """Return the least sum of seconds over all sets of layers on the edge."""
    count = len(sides.edge_s)
    return min(
        sides.seconds({n for n in range(count) if number >> n & 1}) for number in range(2**count)
    )


def draw_network(rng: Random, count: int) -> Network:
    """Return a network of so many layers of one tensor each, small ones at its end.

    Some have no weights.
    """
    reads = draw_reads(rng, count)
    last = {
        m: max((n for n in range(count) if m in reads[n]), default=-1) for m in range(-1, count)
    }
    last[count - 1] = count
    live = [[m for m in range(-1, cut) if last[m] >= cut] for cut in range(count + 1)]
    return Network(
        layers=tuple(f"layer{n}" for n in range(count)),
        weights=tuple(rng.choice((0, rng.randint(1, 500), 100)) for _ in range(count)),
        makers=tuple(range(-1, count)),
        sizes=tuple(
            1 + int(rng.choice((rng.randint(1, 400), 50)) * 0.7**n) for n in range(count + 1)
        ),
        crossing=tuple(
            tuple(m + 1 for m in here if cut <= last[m] < count) for cut, here in enumerate(live)
        ),
        working=tuple(tuple(sorted({m + 1 for m in live[n]} | {n + 1})) for n in range(count)),
    )


def draw_errors(rng: Random, network: Network, widths: tuple[int, ...]) -> np.ndarray:
    """Return errors by layer and width that mostly fall by a quarter per bit."""
    rows = [
        [rng.uniform(0.5, 20) * rng.uniform(0.8, 1.2) * 4.0**-width for width in widths]
        for _ in network.layers
    ]
    return np.array(rows).reshape(-1, len(widths))


def draw_problem(
    rng: Random, count: int, widths: tuple[int, ...] = (2, 4, 6, 8)
) -> tuple[SplitProblem, float]:
    """Return a problem and a bound on its errors; memory and the bound may forbid much, or nothing.

    The edge is slower than the cloud; narrow weights and tensors cost it less time.
    """
    network = draw_network(rng, count)
    bits = np.array(widths)
    cloud_s = np.array([rng.uniform(0.01, 1) for _ in range(count)])
    compute_s = cloud_s * rng.uniform(1, 10)
    traffic = rng.uniform(0, 3e-4)
    made = np.array(network.sizes[1:])
    weight_bits = np.outer(network.weights, bits)[:, :, None]
    moved_s = traffic * (weight_bits + np.outer(made, bits)[:, None, :])
    weight_errors = draw_errors(rng, network, widths)
    weight_errors[np.array(network.weights) == 0] = 0.0
    activation_errors = draw_errors(rng, network, widths)
    largest = network.memory_bits(count, [bits[-1]] * count, [bits[-1]] * count)
    most_error = float((weight_errors + activation_errors)[:, rng.randrange(len(widths))].sum())
    problem = SplitProblem(
        network=network,
        widths=widths,
        edge_s=np.maximum(compute_s[:, None, None], moved_s),
        cloud_s=cloud_s,
        answer_s=np.array([0.1] * count + [0.0]),
        weight_errors=weight_errors,
        activation_errors=activation_errors,
        send_s_per_bit=rng.uniform(5e-4, 5e-3),
        send_s=rng.choice((0.0, 0.1)),
        edge_memory_bits=rng.choice((float("inf"), largest * rng.uniform(0.2, 1))),
    )
    return problem, rng.choice(
        (float("inf"), *(most_error * rng.uniform(0.3, 3) for _ in range(4)))
    )


def every_split(problem: SplitProblem, cut: int) -> Iterator[Split]:
    """Yield all widths of all layers before a cut."""
    options = list(product(problem.widths, repeat=cut))
    for weights, made in product(options, options):
        yield Split(cut, weights, made)


def _bits(network: Network, tensors: tuple[int, ...], made: np.ndarray) -> np.ndarray:
    """Return the bits of tensors for many widths of what layers make: layers by cases."""
    total = np.zeros(made.shape[1])
    for tensor in tensors:
        maker = network.makers[tensor]
        width = made[maker] if maker >= 0 else network.input_bits
        total = total + network.sizes[tensor] * width
    return total


def least_latency_by_trying(problem: SplitProblem, most_error: float) -> float:
    """Return the least latency over all cuts and all widths, as arrays of all of them at once."""
    layers, widths = len(problem.network.layers), np.array(problem.widths)
    best = problem.latency_s(Split(0))
    for cut in range(1, layers + 1):
        grid = np.indices((len(widths),) * (2 * cut)).reshape(2 * cut, -1)
        weights, made = grid[:cut], grid[cut:]
        rows = np.arange(cut)[:, None]
        latency = problem.edge_s[rows, weights, made].sum(axis=0) + problem.rest_s[cut]
        error = (problem.weight_errors[rows, weights] + problem.activation_errors[rows, made]).sum(
            axis=0
        )
        sent = _bits(problem.network, problem.network.crossing[cut], widths[made])
        latency = latency + sent * problem.send_s_per_bit
        stored = (np.array(problem.network.weights[:cut])[:, None] * widths[weights]).sum(axis=0)
        sets = problem.network.working[:cut]
        working = np.max([_bits(problem.network, one, widths[made]) for one in sets], axis=0)
        fits = (stored + working <= problem.edge_memory_bits) & (error <= most_error * (1 + 1e-9))
        if fits.any():
            best = min(best, float(latency[fits].min()))
    return best
