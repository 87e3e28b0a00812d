"""Cuts of the whole network into ranges, each on one device, by dynamic programming."""

from __future__ import annotations

from partita.planners.drafts.draft import Draft, DraftStage
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.pricing.range_costs import cut_positions
from partita.planners.registry import Chosen, register
from partita.planners.simple.single import single_drafts

#: The pipeline's program remembers which devices it used: more than this many are not combined,
#: since each doubles its states. Not tuned.
MOST_PIPELINE_DEVICES = 6
#: Fewer than for other programs, since each set of devices has its own states. Not tuned.
_MOST_PIPELINE_CUTS = 24

Node = tuple[int, str]


@register("cut", cost="cheap")
def plan_cut(evaluator: Evaluator) -> Chosen:
    """The best cuts of the network into ranges of layers, each whole on one device.

    Exact for chains of layers. Where several tensors cross, all of them are thought to move with
    the range that runs, which may be more than is needed; the result is then priced exactly.
    """
    drafts = [*single_drafts(evaluator), *cut_drafts(evaluator)]
    return Chosen(evaluator.best(drafts))


def cut_drafts(evaluator: Evaluator) -> list[Draft]:
    """The best cuts by latency and, where throughput is asked for, by bottleneck."""
    drafts = [_least_latency(evaluator)]
    if evaluator.options.objective == "throughput":
        drafts.append(_least_bottleneck(evaluator))
    return [draft for draft in drafts if draft]


def _least_latency(evaluator: Evaluator) -> Draft:
    """The chain of ranges with the least sum of work and moves."""
    outline, costs, requester = evaluator.outline, evaluator.ranges, evaluator.requester
    positions = cut_positions(outline)
    reached: dict[Node, float] = {(0, requester): 0.0}
    came: dict[Node, tuple[Node, DraftStage]] = {}
    for number, start in enumerate(positions[:-1]):
        here = sorted(
            (reached[start, device], device)
            for device in evaluator.cluster.names
            if (start, device) in reached
        )
        for device in evaluator.devices:
            arrived, source = float("inf"), ""
            for time_s, name in here:
                if time_s > arrived:
                    break  # nor can those that follow be sooner
                arrived, source = min(
                    (arrived, source), (time_s + costs.move_s(start, name, device), name)
                )
            if arrived == float("inf"):
                continue
            for stop in positions[number + 1 :]:
                if not _may_run(evaluator, start, stop, device):
                    break
                done = arrived + costs.work_s(start, stop, device)
                if done < reached.get((stop, device), float("inf")):
                    reached[stop, device] = done
                    stage = DraftStage(start, stop, "none", (device,))
                    came[stop, device] = ((start, source), stage)
    end = len(outline)
    last = min(
        (
            (reached[end, device] + costs.move_s(end, device, requester), device)
            for device in evaluator.devices
            if (end, device) in reached
        ),
        default=(float("inf"), ""),
    )[1]
    return _walk_back((end, last), came)


def _may_run(evaluator: Evaluator, start: int, stop: int, device: str) -> bool:
    pins = evaluator.outline.pins
    return all(place == device for at, place in pins.items() if start <= at < stop)


def _walk_back(end: Node, came: dict[Node, tuple[Node, DraftStage]]) -> Draft:
    stages: list[DraftStage] = []
    while end in came:
        end, stage = came[end]
        stages.append(stage)
    return tuple(reversed(stages))


def _least_bottleneck(evaluator: Evaluator) -> Draft:
    """The pipeline, each device once, whose busiest device or link is least busy."""
    costs = evaluator.ranges
    positions = cut_positions(evaluator.outline, _MOST_PIPELINE_CUTS)
    best: tuple[float, Draft] = (float("inf"), ())
    devices = evaluator.devices
    if len(devices) > MOST_PIPELINE_DEVICES:
        whole = {d: costs.work_s(0, len(evaluator.outline), d) for d in devices}
        devices = tuple(sorted(devices, key=lambda d: whole[d])[:MOST_PIPELINE_DEVICES])
    states: dict[tuple[int, frozenset[str], str], tuple[float, Draft]] = {}
    states[0, frozenset(), evaluator.requester] = (0.0, ())
    for number, start in enumerate(positions[:-1]):
        for (at, used, source), (busiest, draft) in list(states.items()):
            if at != start:
                continue
            for device in devices:
                moved = max(busiest, costs.move_s(start, source, device))
                if device in used or moved >= best[0]:
                    continue
                for stop in positions[number + 1 :]:
                    if not _may_run(evaluator, start, stop, device):
                        break
                    value = max(moved, costs.work_s(start, stop, device))
                    if value >= best[0]:
                        break
                    longer = (*draft, DraftStage(start, stop, "none", (device,)))
                    if stop == positions[-1]:
                        value = max(value, costs.move_s(stop, device, evaluator.requester))
                        best = min(best, (value, longer), key=lambda item: item[0])
                        continue
                    key = (stop, used | {device}, device)
                    if value < states.get(key, (float("inf"), ()))[0]:
                        states[key] = (value, longer)
    return best[1]
