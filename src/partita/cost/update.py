"""A cost model under other conditions: rates of links and speeds of devices as measured."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

from partita.cost.amount import Amounts
from partita.cost.device import DeviceCost
from partita.cost.model import CostModel
from partita.execution import Conditions
from partita.execution.durations import Pair


def update_cost(cost: CostModel, belief: Conditions) -> CostModel:
    """A cost model with other constant rates and speeds; all else is shared with ``cost``.

    Args:
        belief: Rates of links, constant from now on, and slowness of devices compared with the
            profiles of ``cost``. What it does not name stays as it is.
    """
    updated = copy.copy(cost)
    updated.cluster = cost.cluster.with_bandwidth(belief.rates)
    updated.links = updated.cluster.link_map
    updated.devices = {
        name: _slow(device, cost.amounts, belief.slowness.get(name, 1.0))
        for name, device in cost.devices.items()
    }
    return updated


def _slow(device: DeviceCost, amounts: Amounts, factor: float) -> DeviceCost:
    facts = device.facts
    if factor == 1.0:
        return device
    return DeviceCost(replace(facts, slow_down=facts.slow_down * factor), amounts)


def rates_at(cost: CostModel, time_s: float) -> Mapping[Pair, float]:
    """The rate of each link in bytes per second, ``time_s`` after the traces began."""
    return {link.pair: link.bandwidth_at(time_s) for link in cost.cluster.links}
