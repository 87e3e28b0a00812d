"""A network between a device, a gateway and a cloud, as split problems of two sides.

Where the gateway's layers begin is chosen first. What is before the cloud then computes as an edge
does, in two rooms: AUTO-SPLIT's problem, equations 1 to 5, with another device in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from partita.cluster import Link
from partita.errors import PlanError
from partita.planners.edgecloud.quantised_split import EdgeBits, room_bits, width_seconds
from partita.planners.edgecloud.roles import Roles, answer_s, fragment_s
from partita.planners.edgecloud.split_problem import SplitProblem
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.range_costs import cut_positions
from partita.planners.simple.rows import can_talk, device_speeds


def find_gateways(evaluator: Evaluator, roles: Roles, gateway: str | None = None) -> list[str]:
    """Devices between the edge and the cloud, the fastest first; none where these cannot talk.

    Such are linked with the edge, and have a link to the cloud, which answers the edge itself.

    Args:
        gateway: Name of the only one that may be, if it is given.

    Raises:
        PlanError: There is no such device, as where it was lost.
    """
    if gateway is not None and gateway not in evaluator.cluster.names:
        raise PlanError(
            f"Device '{gateway}' is to be the gateway, but is not in the cluster; allowed:"
            f" {', '.join(evaluator.devices)}.",
            subject=gateway,
        )
    if not can_talk(evaluator, roles.edge, roles.cloud):
        return []
    speeds = dict(zip(evaluator.devices, device_speeds(evaluator), strict=True))
    return sorted(
        (
            name
            for name in speeds
            if name not in (roles.edge, roles.cloud)
            and gateway in (None, name)
            and can_talk(evaluator, roles.edge, name)
            and evaluator.cluster.link(name, roles.cloud)
        ),
        key=lambda name: -speeds[name],
    )


def tier_problems(
    evaluator: Evaluator, roles: Roles, gateway: str, bits: EdgeBits, straight: SplitProblem
) -> Iterator[SplitProblem]:
    """Yield a problem for each place where the gateway's layers may begin.

    Places are those where few bytes cross; all of them where they are few.

    Args:
        straight: The same network between the edge and the cloud alone.
    """
    cluster, order = evaluator.cluster, evaluator.outline.order
    near, far = cluster.link_map[roles.edge, gateway], cluster.link_map[gateway, roles.cloud]
    gateway_s = width_seconds(evaluator, gateway, bits, straight.network)
    for place in range(len(order)):
        gateway_s[place] += answer_s(evaluator, place, (gateway, roles.edge))
    once_s = np.zeros(len(order) + 1) + fragment_s(evaluator, gateway) + near.latency_s
    once_s[:-1] += fragment_s(evaluator, roles.cloud) + far.latency_s
    once_s[:-1] += cluster.link_map[roles.cloud, roles.edge].latency_s
    once_s[-1] += cluster.link_map[gateway, roles.edge].latency_s
    beyond = replace(
        straight,
        send_s_per_bit=_s_per_bit(far),
        send_s=far.per_message_s,
        edge_memory_bits=room_bits(evaluator, gateway),
        first_memory_bits=straight.edge_memory_bits,
    )
    edge_start_s = fragment_s(evaluator, roles.edge)
    for first in cut_positions(evaluator.outline):
        if first < len(order):
            edge_s = np.concatenate([straight.edge_s[:first], gateway_s[first:]])
            start_s = once_s + (edge_start_s if first else 0.0)
            yield _send_on(replace(beyond, first=first, edge_s=edge_s, answer_s=start_s), near)


def _send_on(problem: SplitProblem, near: Link) -> SplitProblem:
    """A problem with the seconds of what the first device sends to the gateway."""
    network, edge_s = problem.network, problem.edge_s
    once_s = near.per_message_s
    for tensor in network.crossing[problem.first]:
        maker, sent_s = network.makers[tensor], network.sizes[tensor] * _s_per_bit(near)
        if maker < 0:
            once_s += sent_s * network.input_bits
        else:
            edge_s[maker] += sent_s * np.array(problem.widths)
    return replace(problem, answer_s=problem.answer_s + once_s)


def _s_per_bit(link: Link) -> float:
    return 1 / 8 / link.bandwidth_at(0.0)
