"""Random questions to pricing: a network, unequal devices and links, options, and a draft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, starmap
from random import Random

from partita.cluster import Cluster, Device, Link
from partita.errors import PlanError
from partita.graph import Graph, load_graph
from partita.planners import Draft, DraftStage, Evaluator, PlanOptions
from partita.planners.drafts.channel_pairs import is_pair
from tests.encoders import make_encoder
from tests.planners.fakes import (
    FakeCost,
    make_chain,
    make_gated,
    make_grouped,
    make_pair,
    make_residual,
)
from tests.planners.random_drafts import draw_draft

#: Wire formats that a tensor of floating point may travel in; half of the tensors stay raw.
_FORMATS = ("float16", "uint8", "uint4", "zlib@0.37")


@dataclass(frozen=True)
class Case:
    """One question.

    Attributes:
        evaluator: Costs and options.
        draft: What is to be priced.
    """

    evaluator: Evaluator
    draft: Draft

    def features(self) -> Iterator[str]:
        """Yield what is in the case that pricing must not overlook."""
        options, cluster = self.evaluator.options, self.evaluator.cluster
        yield from {stage.axis for stage in self.draft}
        yield from {"joined by a sum"} if any(starmap(is_pair, pairwise(self.draft))) else ()
        yield from {"lossy"} if options.wires else ()
        yield from {"kept"} if options.keep_on else ()
        yield from {"limit"} if options.energy_limits else ()
        yield f"{options.in_flight} in flight"
        yield from {"several inputs"} if len(self.evaluator.graph.inputs) > 1 else ()
        count = len(cluster.names)
        yield from {"missing link"} if len(cluster.links) < count * (count - 1) else ()
        yield from {"ports"} if any(link.ports for link in cluster.links) else ()
        yield from {"shared"} if any(link.medium for link in cluster.links) else ()
        yield from {"changing"} if any(link.trace for link in cluster.links) else ()


@cache
def _graph(kind: int, seed: int) -> Graph:
    if kind == 0:
        return make_chain(3, seed=seed)
    if kind == 1:
        return make_residual(seed)
    if kind == 5:
        return load_graph(make_encoder(width=8, heads=4, tokens=3))
    return (make_gated, make_pair, make_grouped)[kind - 2]()


def draw_case(rng: Random) -> Case:
    """Return a random case; everything small, so that it takes milliseconds."""
    graph = _graph(rng.randint(0, 5), rng.randint(0, 3))
    cluster = _draw_cluster(rng)
    cost = FakeCost(
        graph,
        cluster,
        dict.fromkeys(cluster.names, 2e7)
        if rng.randint(0, 3) == 0
        else {name: 1e7 * rng.randint(1, 9) for name in cluster.names},
        overhead_s=1e-5 * rng.randint(0, 3),
        codec_s_per_byte=rng.choice((0.0, 0.0, 2e-9, 1e-5)),
    )
    while True:
        try:
            evaluator = Evaluator(cost, _draw_options(rng, graph, cluster))
        except PlanError:  # tensors are kept on two devices that one layer touches
            continue
        break
    if rng.randint(0, 19) == 0:
        draft: Draft = (DraftStage(0, len(evaluator.outline), "replica", evaluator.devices),)
        return Case(evaluator, draft)
    return Case(evaluator, draw_draft(evaluator, rng, longest=rng.randint(1, 3)))


def _draw_cluster(rng: Random) -> Cluster:
    names = [f"d{number}" for number in range(rng.randint(2, 4))]
    odd = rng.choice(("", "", "missing", "missing", "shared", "changing", "ports", "ports"))
    links = []
    for source in names:
        for target in names:
            if source == target or (odd == "missing" and rng.randint(0, 4) == 0):
                continue
            rate = 1e6 * rng.choice((1, 1, 3, 20))
            latency_s, per_message_s = (1e-5 * rng.randint(0, 20) for _ in range(2))
            trace = ((1e-3, rate / 4), (3e-3, rate * 2)) if odd == "changing" else ()
            medium = "air" if odd == "shared" and rng.randint(0, 3) else None
            links.append(
                Link(source, target, rate, latency_s, per_message_s, medium=medium, trace=trace)
            )
    devices = [
        Device(name, port_bytes_per_s=1e6 * rng.choice((1, 2, 5)))
        if odd == "ports" and rng.randint(0, 3)
        else Device(name)
        for name in names
    ]
    return Cluster.of(devices, links=links)


def _draw_options(rng: Random, graph: Graph, cluster: Cluster) -> PlanOptions:
    tensors = [*graph.inputs, *(tensor for layer in graph.layers for tensor in layer.outputs)]
    wires = {}
    if rng.randint(0, 1):
        wires = {name: rng.choice(_FORMATS) for name in tensors if rng.randint(0, 1)}
    keep_on = {rng.choice(tensors): rng.choice(cluster.names)} if not rng.randint(0, 3) else {}
    limits = {}
    if rng.randint(0, 4) == 0:
        limits = {rng.choice(cluster.names): 1e-4 * rng.randint(1, 20)}
    return PlanOptions(
        wires=wires, keep_on=keep_on, energy_limits=limits, in_flight=rng.randint(1, 4)
    )
