"""Who plans anew in a run, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from partita.adapting import finder
from partita.cli.actions.anew import make_search
from partita.cli.flags import AdaptFlags
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.plan import Asked
from partita.planners import Result, find_plan
from tests.planners.edgecloud.cases import quantised_chain
from tests.planners.fakes import make_chain, make_cost


@pytest.mark.parametrize(
    ("adapt", "given_s", "most_s"),
    [(False, 7.0, 7.0), (False, None, 0.5), (True, None, 3.0), (True, 7.0, 7.0)],
)
def test_a_loss_is_planned_around_as_the_flags_say(
    monkeypatch: pytest.MonkeyPatch, adapt: bool, given_s: float | None, most_s: float
) -> None:
    """``--planner`` and ``--budget`` count with ``--recover`` alone, too."""
    cost = make_cost(make_chain(3), 1e7, 2e7, 2e7)
    asked: list[float] = []

    def find(*arguments: Any, **more: Any) -> Result:
        asked.append(more["options"].most_s)
        return find_plan(*arguments, **more)

    monkeypatch.setattr(finder, "find_plan", find)
    flags = AdaptFlags(adapt, True, 0.25, 3.0, "aofl", given_s)
    plan = make_search(find_plan(cost).plan, flags, cost)(cost)  # type: ignore[arg-type]
    assert (plan.planner, asked) == ("aofl", [most_s])


def test_bits_are_chosen_anew_where_the_plan_names_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slower uplink the cut is another one, in other bits, within the drop; else bits stay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph, _ = quantised_chain(8, 32, 2, 64, 64, 1, size=64)
    rng = np.random.default_rng(0)
    (tmp_path / "samples").mkdir()
    for number in range(12):
        drawn = rng.standard_normal(graph.tensors["t0"].shape).astype(np.float32)
        np.save(tmp_path / "samples" / f"{number}.npy", drawn)
    devices = [Device("camera", "raspberry-pi-3"), Device("cloud", "cloud-gpu")]
    fast, slow = (
        CostModel(graph, Cluster.of(devices, bandwidth_bytes_per_s=rate, latency_s=1e-5))
        for rate in (30e6, 5e6)
    )
    plan = find_plan(fast, planner="cloud_only").plan
    asked = Asked(accuracy_drop=0.1, samples=(str(tmp_path / "samples"),))
    named = replace(plan, options=asked)
    flags = AdaptFlags(True, False, 0.25, 3.0, "autosplit", 30.0)
    again = make_search(named, flags, slow)(slow)
    assert again.bits
    assert {s.shards[0].device for s in again.stages} == {"camera", "cloud"}
    assert not make_search(plan, flags, slow)(slow).bits
