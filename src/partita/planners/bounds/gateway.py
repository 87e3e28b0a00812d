"""Seconds per request that no number of devices goes below: all share the requester's way out.

Where the requester computes nothing, what is needed of every input leaves it, and every answer
comes to it (see :mod:`~partita.planners.bounds.least_period` for what is needed). All of that
passes its port, one byte after the other in each direction, or takes turns on the one medium that
all of its links are part of. So the mean seconds per request, however many are in flight, and the
seconds of one alone are not below what that takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partita.planners.bounds.minimum_costs import MinimumCosts, peak_bytes_per_s
from partita.planners.bounds.shares import SAFE, least_size_bytes
from partita.planners.pricing.evaluator import Evaluator


class Gateway(NamedTuple):
    """What all requests pass.

    Attributes:
        seconds: That no request takes less than, nor the mean under load.
        name: For a sentence.
        bytes_per_s: Its rate.
    """

    seconds: float
    name: str
    bytes_per_s: float


def narrowest_gateway(evaluator: Evaluator) -> Gateway | None:
    """What the requester's messages take longest to pass; None where nothing is known to be."""
    home = evaluator.requester
    if home in (*evaluator.devices, *evaluator.outline.pins.values()):
        return None
    return max(_gateways(evaluator, home), default=None)


def _gateways(evaluator: Evaluator, home: str) -> Iterator[Gateway]:
    floors, graph = evaluator.remember(MinimumCosts), evaluator.graph
    out = sum(_needed_bytes(floors, tensor) for tensor in graph.inputs) * SAFE
    back = sum(least_size_bytes(evaluator, tensor) for tensor in graph.outputs) * SAFE
    port = evaluator.cluster.device(home).port_bytes_per_s
    if port is not None:
        yield Gateway(max(out, back) / port, f"the port of '{home}'", port)
    links = [link for link in evaluator.cluster.links if home in link.pair]
    media = {link.medium for link in links}
    if len(media) == 1 and (medium := media.pop()) is not None:
        rate = max(map(peak_bytes_per_s, links))
        yield Gateway((out + back) / rate, f"medium '{medium}'", rate)


def _needed_bytes(floors: MinimumCosts, tensor: str) -> float:
    """What is needed of an input at least, by whichever layer needs most."""
    graph = floors.evaluator.graph
    parts = [
        floors.required[reader.name] * floors.needed_share(reader, tensor)
        for reader in graph.readers(tensor)
    ]
    return max(parts, default=0.0) * least_size_bytes(floors.evaluator, tensor)
