"""Which devices messages can get to from the requester and back: no plan uses any others."""

from __future__ import annotations

from partita.planners.pricing.evaluator import Evaluator


def reached_devices(evaluator: Evaluator) -> tuple[str, ...]:
    """The devices that may compute and can have a part in an answer, in the cluster's order.

    There is a way over links from the requester and one to it, by devices that compute.
    """
    home = evaluator.requester
    computing = dict.fromkeys((*evaluator.devices, *evaluator.outline.pins.values()))
    ends = {home, *computing}
    pairs = [link.pair for link in evaluator.cluster.links if ends.issuperset(link.pair)]
    reached = _reach(home, pairs) & _reach(home, [pair[::-1] for pair in pairs])
    return tuple(device for device in computing if device in reached)


def _reach(home: str, pairs: list[tuple[str, str]]) -> set[str]:
    """What can be got to from a place, itself among it."""
    reached, new = set[str](), {home}
    while new:
        reached |= new
        new = {target for source, target in pairs if source in new} - reached
    return reached


def lacks_links(evaluator: Evaluator) -> str:
    """Why no plan has the links that it needs, in a sentence; empty where nothing proves it."""
    if reached_devices(evaluator):
        return ""
    home = evaluator.requester
    return (
        f"requester '{home}' may not compute, and no device that may has links both from it and to"
        " it: give the cluster file [[link]] tables."
    )
