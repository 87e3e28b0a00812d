"""What goes on when a device is lost, given beforehand."""

from __future__ import annotations

import msgspec
import pytest
from tests.adapting.runs import DEVICES
from tests.planners.fakes import make_chain

import partita as pt
from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan
from partita.cost import CostModel
from partita.errors import PlanError
from partita.leader import Lost
from partita.leader.substitutes import Substitutes
from partita.planners import PlanOptions, find_plan

CLUSTER = Cluster.of(DEVICES, bandwidth_bytes_per_s=125e6, latency_s=0.0)


def _compiled(*devices: str) -> Compiled:
    """Rows on some of the devices."""
    graph = make_chain(3, height=12)
    options = PlanOptions(devices=devices)
    plan = find_plan(CostModel(graph, CLUSTER), planner="equal_rows", options=options).plan
    return compile_plan(graph, plan, CLUSTER)


def test_what_needs_nothing_that_is_lost_goes_on() -> None:
    """For the last loss first; what uses another lost device, or a lost link, does not."""
    first, pair, alone = _compiled("d0", "d1", "d2"), _compiled("d0", "d1"), _compiled("d0")
    substitutes = Substitutes(first.program, {"d2": pair, "d1": alone})
    assert substitutes(Lost(("d2",))) is pair
    assert substitutes(Lost(("d2", "d1"))) is alone
    assert substitutes(Lost(("d1", "d2"))) is alone
    with pytest.raises(PlanError, match="Nothing goes on without device 'd2' and the link"):
        substitutes(Lost(("d2",)) | Lost.link("d1", "d0"))
    with pytest.raises(PlanError, match="Nothing goes on without the link between 'd0' and 'd2'"):
        substitutes(Lost.link("d0", "d2"))


def test_what_cannot_go_on_is_refused_at_once() -> None:
    """What computes on the device itself, and what answers something else."""
    first, pair = _compiled("d0", "d1", "d2"), _compiled("d0", "d1")
    with pytest.raises(PlanError, match="What goes on without device 'd1' computes on it"):
        Substitutes(first.program, {"d1": pair})
    (output,) = first.program.outputs
    other = msgspec.structs.replace(output, name="other")
    program = msgspec.structs.replace(first.program, outputs=(other,))
    with pytest.raises(PlanError, match="What goes on without device 'd2' has other outputs"):
        Substitutes(program, {"d2": pair})


def test_who_plans_anew_is_given_nothing_instead() -> None:
    """Before any worker is asked."""
    graph = make_chain(3, height=12)
    plan = find_plan(CostModel(graph, CLUSTER), planner="equal_rows").plan
    given = {"d2": (graph, plan)}
    with (
        pytest.raises(PlanError, match="What goes on instead is given: without recover, adapt"),
        pt.deploy(plan, graph, CLUSTER, recover=True, instead=given),
    ):
        pass
