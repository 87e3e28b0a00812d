"""A packed payload that is damaged between an edge and a cloud, in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.compile.test_export import CLUSTER, cut_plan
from tests.memory_lab import MemoryLab, memory_lab
from tests.quantisation.networks import draw_samples, small_graph

from partita.compile import Compiled, compile_plan
from partita.errors import RunError
from partita.exactness.interpret import run_program
from partita.graph import Graph
from partita.leader import Lost, deploy
from partita.plan import Plan, Shard, Stage
from partita.quantisation import choose_bits, collect_ranges

Send = Callable[[str, bytes, Any], None]


def make_plan(graph: Graph, wire: str) -> Plan:
    """Return a plan that sends 4-bit codes, or what the format makes of floats."""
    ranges = collect_ranges(graph, draw_samples())
    bits = {} if wire else choose_bits(graph, ranges, 4, 4)
    return cut_plan(graph, bits, 3, wire=wire)


def damage_once(lab: MemoryLab) -> list[int]:
    """Flip one bit of the next payload from the camera to the cloud; return whose bytes it was."""
    endpoint, done = lab.workers["camera"].endpoint, list[int]()
    send: Send = endpoint.send

    def damaging(target: str, header: bytes, payload: Any) -> None:
        if target == "cloud" and not done:
            payload = bytearray(payload)
            payload[len(payload) // 2] ^= 16
            done.append(len(payload))
        send(target, header, payload)

    endpoint.send = damaging  # type: ignore[method-assign]
    return done


def on_the_camera(plan: Plan) -> Plan:
    """Return the same network, all on the camera."""
    layers = tuple(name for stage in plan.stages for name in stage.layers)
    stage = Stage("all", layers, "none", (Shard("camera"),))
    return msgspec.structs.replace(plan, stages=(stage,), wires={})


@pytest.mark.parametrize("wire", ["", "jpeg80@0.5"])
def test_a_damaged_payload_is_detected_and_the_request_fed_again(wire: str) -> None:
    """The error names tensor, sender and format; who recovers gets every answer, and all right."""
    graph = small_graph()
    plan = make_plan(graph, wire)
    compiled = compile_plan(graph, plan, CLUSTER)
    devices = CLUSTER.devices
    requests = draw_samples(3)
    (stream,) = [s for s in compiled.program.streams if s.target == "cloud"]
    with memory_lab(devices) as lab, deploy(compiled, lab.endpoint) as session:
        damage_once(lab)
        with pytest.raises(RunError, match="damaged on the way") as caught:
            session.run(requests)
    assert f"receive {stream.tensor} from camera" in caught.value.message
    assert stream.wire in caught.value.message
    losses: list[Lost] = []

    def replan(lost: Lost) -> Compiled:
        losses.append(lost)
        return compile_plan(graph, on_the_camera(plan), CLUSTER)

    with memory_lab(devices) as lab, deploy(compiled, lab.endpoint, replan=replan) as session:
        done = damage_once(lab)
        answers = session.run(requests)
    assert len(done) == 1
    assert losses == [Lost.link("cloud", "camera")]
    alone = compile_plan(graph, on_the_camera(plan), CLUSTER)
    for feeds, answer in zip(requests, answers, strict=True):
        expected = run_program(alone, feeds)[0]["y"]
        np.testing.assert_allclose(answer["y"], expected, atol=1e-5)
