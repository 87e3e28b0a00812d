"""A session over in-memory workers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from tests.memory_lab import MemoryLab, memory_lab
from tests.simulation.test_simulate import unit_durations
from tests.worker.tiny import (
    Tiny,
    expected_chain,
    random_inputs,
    tiny_chain,
    tiny_halo,
    tiny_replicas,
    weight_of,
)

from partita.cluster import Device
from partita.errors import InputError, RunError
from partita.leader import DeployOptions, Session, deploy
from partita.simulation import simulate

Deploy = Callable[..., Session]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Contexts that end with the test."""
    with ExitStack() as entered:
        yield entered


def start(stack: ExitStack, tiny: Tiny, **options: object) -> tuple[MemoryLab, Session]:
    """Deploy ``tiny`` on a worker per device."""
    names = [part.device for part in tiny.program.devices]
    lab = stack.enter_context(memory_lab([Device(name) for name in names]))
    session = deploy(tiny, lab.endpoint, DeployOptions(**options))  # type: ignore[arg-type]
    return lab, stack.enter_context(session)


def test_a_chain_over_three_devices_gives_the_exact_product(stack: ExitStack) -> None:
    """A chain over three devices answers each request, in order."""
    tiny = tiny_chain()
    _, session = start(stack, tiny)
    inputs = random_inputs(tiny.program, 5)
    outputs = session.run(inputs)
    for given, got in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(got["t2"], expected_chain(tiny.program, given["input"]))


def test_who_is_given_up_is_done_without(stack: ExitStack) -> None:
    """Though it is there: it is planned around as a loss is, for the reason that is given."""
    rest = tiny_chain(3, 2)
    lab = stack.enter_context(memory_lab([Device(f"d{n}") for n in range(4)]))
    session = stack.enter_context(deploy(tiny_chain(), lab.endpoint, replan=lambda lost: rest))
    inputs = random_inputs(rest.program, 2)
    session.run(inputs)
    session.give_up({"d2", "d3"}, "it was revoked")
    while session.program != rest.program:
        pass
    for given, got in zip(inputs, session.run(inputs), strict=True):
        np.testing.assert_array_equal(got["t2"], expected_chain(rest.program, given["input"]))
    assert set(session.lost.devices) == {"d2", "d3"}
    assert [change.why for change in session.changes] == [
        "Device 'd2' is lost: it was revoked. No request was under way".partition(". ")[0]
    ]
    assert lab.endpoint.peers() == {"d0", "d1"}


def test_pieces_are_assembled_from_two_devices(stack: ExitStack) -> None:
    """An argument whose rows come from two devices is put together in the right order."""
    tiny = tiny_halo()
    _, session = start(stack, tiny)
    given = random_inputs(tiny.program)[0]
    got = session.run([given])[0]["b"]
    np.testing.assert_array_equal(got, given["input"] * np.float32(11) * np.float32(11))


def test_a_pipeline_keeps_order_with_requests_in_flight(stack: ExitStack) -> None:
    """With four requests in flight every answer still belongs to its input."""
    tiny = tiny_chain(stages=4, devices=4, in_flight=4, credit=2)
    _, session = start(stack, tiny)
    inputs = random_inputs(tiny.program, 40)
    outputs = session.run(inputs)
    for given, got in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(got["t3"], expected_chain(tiny.program, given["input"]))
    assert len(session.report().latencies_s) == 40


def test_replicas_share_the_requests(stack: ExitStack) -> None:
    """Requests go to both replicas, and all answers are right."""
    tiny = tiny_replicas()
    _, session = start(stack, tiny)
    inputs = random_inputs(tiny.program, 20)
    weight = np.float32(weight_of("make a"))
    for given, got in zip(inputs, session.run(inputs), strict=True):
        np.testing.assert_array_equal(got["a"], given["input"] * weight)
    busy = {use.name: use.busy_s for use in session.report().devices}
    assert busy["d1"] > 0
    assert busy["d2"] > 0


def test_requests_go_where_the_simulation_sends_them(stack: ExitStack) -> None:
    """With shares, and replicas that keep up, each request takes the same one in both."""
    tiny = tiny_replicas(20, (3, 1))
    _, session = start(stack, tiny)
    inputs = random_inputs(tiny.program, 20)
    weight = np.float32(weight_of("make a"))
    for given, got in zip(inputs, session.run(inputs), strict=True):
        np.testing.assert_array_equal(got["a"], given["input"] * weight)
    simulated = simulate(tiny.program, unit_durations(tiny.program), requests=20)
    routes = [
        {span.request: span.device for span in report.spans if span.lane == "compute"}
        for report in (session.report(), simulated)
    ]
    assert routes[0] == routes[1]
    assert list(routes[0].values()).count("d2") == 5


def test_the_report_has_bytes_spans_and_memory(stack: ExitStack) -> None:
    """The report counts payload bytes per link and places all spans within the run."""
    tiny = tiny_chain()
    _, session = start(stack, tiny, planner="hand", seed=7)
    session.run(random_inputs(tiny.program, 3))
    session.run(random_inputs(tiny.program, 2))
    report = session.report()
    assert (report.planner, report.seed) == ("hand", 7)
    assert [(use.source, use.target, use.bytes) for use in report.links] == [
        ("d0", "d1", 32), ("d1", "d2", 32), ("d2", "d0", 32),
    ]  # fmt: skip
    assert {span.request for span in report.spans} == {0, 1}
    assert all(-0.01 < s.start_s <= s.end_s < report.makespan_s + 0.01 for s in report.spans)
    assert all(use.peak_memory_bytes > 0 for use in report.devices)


def test_without_tracing_sums_are_still_there(stack: ExitStack) -> None:
    """Without spans the report still has busy seconds and bytes."""
    tiny = tiny_chain()
    _, session = start(stack, tiny, trace=False)
    session.run(random_inputs(tiny.program, 2))
    report = session.report()
    assert report.spans == ()
    assert [use.bytes for use in report.links] == [32, 32, 32]


def test_wrong_inputs_are_refused_before_anything_runs(stack: ExitStack) -> None:
    """A wrong name, shape or type is an input error that names what is allowed."""
    tiny = tiny_chain()
    _, session = start(stack, tiny)
    good = random_inputs(tiny.program)[0]
    for bad, text in (
        ({"other": good["input"]}, "takes 'input'"),
        ({"input": good["input"][:2]}, r"float32\[2\], the model takes float32\[4\]"),
        ({"input": good["input"].astype(np.float64)}, "float64"),
    ):
        with pytest.raises(InputError, match=text):
            session.run([good, bad])
    assert len(session.run([good])) == 1


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (
            {"input": np.zeros(4, np.float32)},
            "Requests are of type dict: allowed is a list that has",
        ),
        (3, "Requests are of type int: allowed is a list"),
        ([np.zeros(4, np.float32)], "Inputs are a ndarray: allowed are arrays by name"),
        ([[np.zeros(4, np.float32)]], "Inputs are a list: allowed are arrays by name"),
        ([{"input": {"input": np.zeros(4, np.float32)}}], "Input 'input' is object"),
        ([{"input": [[1.0], [2.0, 3.0]]}], "Input 'input' is no array"),
    ],
)
def test_mappings_of_a_wrong_shape_are_refused(stack: ExitStack, requests: Any, text: str) -> None:
    """Requests that are no list of mappings of arrays are one error, whichever way they come."""
    _, session = start(stack, tiny_chain())
    for ask in (session.run, session.iterate):
        with pytest.raises(InputError, match=text):
            list(ask(requests))


def test_more_in_flight_than_compiled_is_refused(stack: ExitStack) -> None:
    """A plan for one request at a time does not take two."""
    tiny = tiny_chain()
    _, session = start(stack, tiny)
    with pytest.raises(InputError, match="compiled for 1 to 1"):
        session.run(random_inputs(tiny.program), in_flight=2)


def test_missing_workers_are_named() -> None:
    """A deployment that lacks a worker says which."""
    tiny = tiny_chain()
    with memory_lab([Device("d0"), Device("d2")]) as lab, pytest.raises(RunError) as caught:
        deploy(tiny, lab.endpoint, DeployOptions(wait_s=0.05))
    assert "'d1' is not there" in caught.value.message
    assert caught.value.device == "d1"


def test_an_emulated_device_takes_its_time(stack: ExitStack) -> None:
    """A slowed device is calibrated at deployment and keeps its floor."""
    tiny = tiny_chain(stages=1, devices=1)
    lab = stack.enter_context(memory_lab([Device("d0", slow_down=2000.0)]))
    session = stack.enter_context(deploy(tiny, lab.endpoint))
    runner = next(iter(lab.workers["d0"]._epochs.values())).context.runners[0]
    session.run(random_inputs(tiny.program))
    compute = next(span for span in session.report().spans if span.lane == "compute")
    assert session.stats()["d0"].overruns == 0
    assert compute.end_s - compute.start_s >= 2000 * runner.alone_s  # type: ignore[attr-defined]


def test_content_is_pushed_once(stack: ExitStack) -> None:
    """A second deployment of the same content pushes nothing."""
    tiny = tiny_chain()
    lab, session = start(stack, tiny)
    assert session.deployment.pushed_bytes > 0
    session.close()
    again = stack.enter_context(deploy(tiny, lab.endpoint))
    assert again.deployment.pushed_bytes == 0


def test_several_threads_may_submit(stack: ExitStack) -> None:
    """Requests submitted from several threads each get their own answer."""
    tiny = tiny_chain(2, 2, in_flight=3, credit=2)
    _, session = start(stack, tiny)
    inputs = random_inputs(tiny.program, 24)
    with ThreadPoolExecutor(6) as pool:
        futures = list(pool.map(session.submit, inputs))
    for given, future in zip(inputs, futures, strict=True):
        got = future.result(5)["t1"]
        np.testing.assert_array_equal(got, expected_chain(tiny.program, given["input"]))


def test_inputs_are_drawn_only_when_they_can_be_fed(stack: ExitStack) -> None:
    """A stream of inputs is read as answers come, not all at once."""
    tiny = tiny_chain(2, 2, in_flight=2, credit=2)
    _, session = start(stack, tiny)
    drawn = []

    def draw() -> Iterator[dict[str, np.ndarray]]:
        for number, given in enumerate(random_inputs(tiny.program, 30)):
            drawn.append(number)
            yield given

    answers = session.iterate(draw())
    next(answers)
    assert len(drawn) <= 3
    assert len(list(answers)) == 29


def test_answers_that_were_handed_out_are_not_kept(stack: ExitStack) -> None:
    """Memory stays the same over any number of requests, reports and all."""
    tiny = tiny_chain(3, 3, in_flight=2, credit=2)
    _, session = start(stack, tiny)
    outputs = [weakref.ref(got["t2"]) for got in session.iterate(random_inputs(tiny.program, 30))]
    assert len(session.report().latencies_s) == 30
    assert sum(output() is not None for output in outputs) <= 1
