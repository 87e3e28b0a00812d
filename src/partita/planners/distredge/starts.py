"""Plans by simple rules, with which the repaired method begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partita.planners.distredge.process import Cuts, SplitProcess
from partita.planners.drafts.draft import share_cuts
from partita.planners.simple.rows import device_speeds


def start_plans(process: SplitProcess) -> tuple[tuple[Cuts, ...], ...]:
    """Plans with the same shares for all volumes, each once.

    Equal; by speed; by bandwidth; by both, as seconds of the whole network with its way there and
    back; everything on one device, for each device.
    """
    return tuple(
        dict.fromkeys(
            tuple(share_cuts(shares, height) for height in process.heights)
            for shares in _share_vectors(process)
        )
    )


def _share_vectors(process: SplitProcess) -> Iterator[Sequence[float]]:
    count = len(process.devices)
    yield (1.0,) * count
    speeds = device_speeds(process.evaluator)
    yield speeds
    rates = [_bandwidth(process, device) for device in process.devices]
    if sum(rates) > 0:
        yield rates
    alone = [_alone_s(process, device) for device in process.devices]
    if min(alone) > 0:
        yield [1.0 / seconds for seconds in alone]
    for chosen in range(count):
        yield [float(number == chosen) for number in range(count)]


def _alone_s(process: SplitProcess, device: str) -> float:
    """The seconds of the whole network on a device, its input sent there and back."""
    evaluator = process.evaluator
    costs, count = evaluator.ranges, len(evaluator.outline)
    moved_s = costs.move_s(0, evaluator.requester, device)
    moved_s += costs.move_s(count, device, evaluator.requester)
    return costs.work_s(0, count, device) + moved_s


def _bandwidth(process: SplitProcess, device: str) -> float:
    """A device's mean bandwidth to the others, relative to the fastest link."""
    every = process.evaluator.cluster.links
    links = [link for link in every if device in (link.source, link.target)]
    fastest = max((link.bandwidth_bytes_per_s for link in every), default=0)
    if not links or fastest in (0, float("inf")):
        return 0.0
    return sum(link.bandwidth_bytes_per_s for link in links) / len(links) / fastest
