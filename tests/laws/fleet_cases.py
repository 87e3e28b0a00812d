"""Drawn fleets and networks for laws about planners: little memory, ports, swap, missing links."""

from __future__ import annotations

import random
from dataclasses import replace

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.graph import Graph
from partita.planners import OBJECTIVES, Evaluator, PlanOptions
from partita.planners.simple.single import single_drafts
from tests.planners.fakes import make_gated, make_pair, make_residual, make_wide

KINDS = ("raspberry-pi-3", "raspberry-pi-4", "jetson-nano", "raspberry-pi-zero-2")
#: Enough evaluations for small networks; time never ends these searches.
EVALUATIONS = 150


def draw_fleet(seed: int) -> tuple[CostModel, PlanOptions]:
    """Return a network on boards of the catalogue, and what is wanted."""
    rng = random.Random(seed)
    graph = _draw_graph(rng)
    boards = [
        Device(f"d{k}", kind=rng.choice(KINDS), memory_bytes=2_000_000_000)
        for k in range(rng.randint(1, 5))
    ]
    if rng.random() < 0.5:  # of one kind
        boards = [replace(board, kind=boards[0].kind) for board in boards]
    links = _draw_links(rng, [board.name for board in boards])
    options = PlanOptions(
        rng.choice(("latency", "throughput")),
        budget_s=1000.0,
        in_flight=rng.choice((1, 2, 4, 8, 32)),
        max_evaluations=EVALUATIONS,
    )
    if rng.random() < 0.6:
        room = _alone_bytes(graph, boards[0]) * rng.choice((0.3, 0.5, 0.8, 1.1))
        boards = [replace(b, memory_bytes=int(room * rng.uniform(0.7, 1.3))) for b in boards]
        if rng.random() < 0.4:
            rates = [10 ** rng.uniform(5, 7) if rng.random() < 0.8 else None for _ in boards]
            boards = [replace(b, swap_bytes_per_s=r) for b, r in zip(boards, rates, strict=True)]
            options = replace(options, swap=any(rates))
    if rng.random() < 0.3:
        boards = [replace(b, port_bytes_per_s=10 ** rng.uniform(6, 8)) for b in boards]
    if len(boards) > 1 and rng.random() < 0.3:
        boards[0] = replace(boards[0], computes=False, swap_bytes_per_s=None)
        options = replace(options, swap=any(b.swap_bytes_per_s for b in boards))
    return CostModel(graph, Cluster.of(boards, links=links)), options


def draw_tight_fleet(seed: int) -> tuple[CostModel, PlanOptions]:
    """Return a network that boards hold hardly, or only together, and any objective."""
    rng = random.Random(seed)
    graph = _draw_graph(rng)
    kinds = KINDS[:1] if rng.random() < 0.5 else KINDS
    boards = [Device(f"d{k}", kind=rng.choice(kinds)) for k in range(rng.randint(2, 12))]
    room = _alone_bytes(graph, boards[0]) * rng.choice((0.96, 0.98, 0.99, 1.0, 1.1))
    boards = [replace(b, memory_bytes=int(room * rng.uniform(0.97, 1.03))) for b in boards]
    if rng.random() < 0.5:
        boards = [replace(b, port_bytes_per_s=10 ** rng.uniform(6, 8)) for b in boards]
    links = _draw_links(rng, [board.name for board in boards])
    boards[0] = replace(boards[0], computes=rng.random() < 0.7)
    options = PlanOptions(
        rng.choice(OBJECTIVES),
        most_s=1e6,
        in_flight=rng.randint(1, 8),
        max_evaluations=rng.choice((20, 60, 150)),
    )
    return CostModel(graph, Cluster.of(boards, links=links)), options


def _draw_graph(rng: random.Random) -> Graph:
    kind = rng.randrange(4)
    if kind == 0:
        return make_residual(rng.randrange(100))
    if kind == 1:
        return rng.choice((make_gated, make_pair))()
    widths = [rng.choice((4, 16, 64)) for _ in range(rng.randint(1, 6))]
    return make_wide(*widths, size=rng.choice((4, 16, 32)))


def _draw_links(rng: random.Random, names: list[str]) -> list[Link]:
    rate, latency_s = 10 ** rng.uniform(5, 8), rng.choice((0.0, 1e-4, 2e-3))
    missing = rng.choice((0.0, 0.0, 0.0, 0.2, 0.5))
    return [
        Link(a, b, rate * rng.uniform(0.5, 1.5), latency_s)
        for a in names
        for b in names
        if a != b and rng.random() >= missing
    ]


def _alone_bytes(graph: Graph, board: Device) -> int:
    """Return the memory that a board takes which computes all."""
    cost = CostModel(graph, Cluster.of([board]))
    evaluator = Evaluator(cost, PlanOptions())
    plan = evaluator.problem.plan(single_drafts(evaluator)[0])
    return sum(evaluator.evaluate(plan).memory_bytes.values())
