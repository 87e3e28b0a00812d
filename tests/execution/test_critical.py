"""What a request's latency is made of."""

from __future__ import annotations

import pytest
from tests.planners.fakes import make_chain

import partita as pt
from partita.cluster import Cluster, Device
from partita.cost import CostModel, CostOptions
from partita.execution import Report, Span
from partita.execution.critical import critical_path, share_out
from partita.simulation import predict


def span(device: str, lane: str, label: str, start_s: float, end_s: float) -> Span:
    """A span of request 0."""
    return Span(device, lane, 0, label, 0, start_s, end_s)


HAND_MADE = (
    span("a", "compute", "first", 0.0, 1.0),
    span("a", "send:b", "t", 1.0, 3.0),
    span("a", "send:b", "other", 0.5, 3.4),
    span("b", "compute", "own part", 0.0, 2.0),
    span("b", "receive", "t", 3.5, 3.6),
    span("b", "compute", "second", 4.0, 6.0),
    span("b", "deliver", "", 6.0, 6.0),
)


def test_the_path_goes_through_what_was_waited_for() -> None:
    """A received piece waited for its sending, a step for the last that its device did before."""
    parts = [(part.kind, part.where, part.seconds) for part in critical_path(HAND_MADE, 0)]
    assert [(kind, where) for kind, where, seconds in parts if seconds > 0] == [
        ("compute", ("a",)),
        ("transfer", ("a", "b")),
        ("transfer", ("a", "b")),
        ("handle", ("b",)),
        ("wait", ("b",)),
        ("compute", ("b",)),
    ]
    assert sum(seconds for _, _, seconds in parts) == pytest.approx(6.0)


def test_a_typical_request_is_shared_out() -> None:
    """The largest part first; nothing where no steps were recorded."""
    report = Report("", 0, (6.0,), 6.0, (), (), HAND_MADE)
    shares = share_out(report)
    assert next(iter(shares)) in {("transfer", ("a", "b")), ("compute", ("b",))}
    assert shares["transfer", ("a", "b")] == pytest.approx(2.5)
    assert share_out(Report("", 0, (6.0,), 6.0, (), ())) == {}


@pytest.mark.parametrize("planner", ["single", "equal_rows", "coedge", "cut", "best"])
def test_the_parts_add_up_to_the_latency(planner: str) -> None:
    """Of every plan, whatever is divided, as far as it is predicted."""
    devices = [Device(name, kind="raspberry-pi-4") for name in ("a", "b", "c")]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=12e6, latency_s=0.001)
    graph = pt.load_graph(make_chain(5, height=24, channels=16).to_model())
    cost = CostModel(graph, cluster)
    report = predict(cost, pt.find_plan(cost, planner=planner).plan, requests=2)
    assert sum(share_out(report).values()) == pytest.approx(report.quantile_s(0.5), rel=1e-6)


def test_what_lies_between_leader_and_requester_is_a_part() -> None:
    """An input that takes long to come decides, too: the parts add up to the whole latency."""
    report = Report("", 0, (10.0,), 10.0, (), (), HAND_MADE)
    shares = share_out(report)
    assert next(iter(shares)) == ("feed", ("a",))
    assert shares["feed", ("a",)] == pytest.approx(4.0)
    assert sum(shares.values()) == pytest.approx(10.0)


def test_steps_that_seem_to_outlast_the_answer_count_until_it() -> None:
    """Clocks that disagree make no request longer than it was: the parts are its latency."""
    shares = share_out(Report("", 0, (5.0,), 5.0, (), (), HAND_MADE))
    assert sum(shares.values()) == pytest.approx(5.0)
    assert shares["compute", ("b",)] == pytest.approx(1.0)


def test_waiting_for_the_first_step_is_no_transfer() -> None:
    """Of several in flight, what the luckiest one took outside of its steps is the way itself."""
    spans = [
        Span("a", "compute", 0, "all", number, start_s, start_s + 2.0)
        for number, start_s in enumerate((1.0, 3.0, 5.0))
    ]
    shares = share_out(Report("", 0, (3.5, 5.5, 7.5), 7.5, (), (), tuple(spans)))
    assert shares == {
        ("compute", ("a",)): 2.0,
        ("wait", ("a",)): 2.0,
        ("feed", ("a",)): 1.5,
    }


@pytest.mark.parametrize("in_flight", [1, 3])
def test_the_way_from_the_leader_is_predicted(in_flight: int) -> None:
    """What a request costs the leader is in the prediction under the same name."""
    cluster = Cluster.of([Device(name, kind="raspberry-pi-4") for name in ("a", "b")])
    graph = pt.load_graph(make_chain(3, height=24, channels=16).to_model())
    cost = CostModel(graph, cluster, options=CostOptions(admit_s=0.05))
    plan = pt.find_plan(cost, planner="equal_rows").plan
    report = predict(cost, plan, requests=4, in_flight=in_flight)
    shares = share_out(report)
    assert shares["feed", ("a",)] == pytest.approx(0.05)
    assert sum(shares.values()) == pytest.approx(report.quantile_s(0.5), rel=1e-6)
