"""Programs with real fragments, small enough to follow by hand: every step multiplies and adds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper
from tests.program_builder import ProgramBuilder, chain

from partita.program import Compute, FragmentInfo, Program


@dataclass(frozen=True)
class Tiny:
    """A program with its content."""

    program: Program
    graphs: dict[str, bytes]
    blobs: dict[str, Any]


def fragment(reads: list[tuple[int, ...]], out: tuple[int, ...], start: int, blob: str) -> bytes:
    """Return a graph that adds its inputs' rows from ``start`` on and multiplies by a weight."""
    rows = out[0]
    nodes, names = [], []
    inits = [
        helper.make_tensor("starts", TensorProto.INT64, [1], [start]),
        helper.make_tensor("ends", TensorProto.INT64, [1], [start + rows]),
    ]
    for index in range(len(reads)):
        nodes.append(helper.make_node("Slice", [f"i{index}", "starts", "ends"], [f"s{index}"]))
        names.append(f"s{index}")
    nodes.append(helper.make_node("Sum", names, ["sum"]))
    nodes.append(helper.make_node("Mul", ["sum", "w"], ["o0"]))
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", blob), ("offset", "0"), ("length", "4")):
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, r) for i, r in enumerate(reads)],
        [helper.make_tensor_value_info("o0", TensorProto.FLOAT, out)],
        [*inits, weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(onnx.ModelProto.SerializeToString(model))


def equip(program: Program) -> Tiny:
    """Return ``program`` with a fragment per ``Compute``, with the weight of its tensor."""
    graphs: dict[str, bytes] = {}
    blobs: dict[str, Any] = {}
    infos = list(program.fragments)
    for part in program.devices:
        boxes = {buffer.id: buffer.box for buffer in part.buffers}
        for step in part.steps:
            if not isinstance(step, Compute):
                continue
            weight = np.array([weight_of(step.label)], np.float32)
            blob = hashlib.sha256(weight.tobytes()).hexdigest()
            blobs[blob] = weight
            out = boxes[step.writes[0]]
            start = out.bounds[0][0] - step.reads[0].box.bounds[0][0] if step.reads else 0
            graph = fragment([read.box.shape for read in step.reads], out.shape, start, blob)
            name = hashlib.sha256(graph).hexdigest()
            graphs[name] = graph
            infos[step.fragment] = FragmentInfo(name, (blob,), len(graph), 4, (4,))
    return Tiny(msgspec.structs.replace(program, fragments=tuple(infos)), graphs, blobs)


def weight_of(label: str) -> float:
    """Return the factor by which the step called ``label`` multiplies, on whichever device."""
    name = label.removeprefix("make ")
    return int(name[1:]) + 2.0 if name[1:] else 11.0


def expected_chain(program: Program, array: np.ndarray) -> np.ndarray:
    """Return what a chain makes of ``array``."""
    labels = {
        step.label for part in program.devices for step in part.steps if isinstance(step, Compute)
    }
    for label in sorted(labels):
        array = array * np.float32(weight_of(label))
    return array


def tiny_chain(stages: int = 3, devices: int = 3, in_flight: int = 1, credit: int = 1) -> Tiny:
    """Return a chain of stages over devices."""
    return equip(chain(stages, devices, in_flight=in_flight, credit=credit))


def tiny_halo(in_flight: int = 1) -> Tiny:
    """Return a stage in two halves whose parts each need a row of the other's."""
    build = ProgramBuilder(2, in_flight=in_flight)
    fed = build.feed(rows=8)
    other = build.send(fed, "d1")
    top = build.compute("d0", [[fed]], "a", box=(0, 5))
    bottom = build.compute("d1", [[other]], "a", box=(3, 8))
    rest = build.send(bottom, "d0")
    out = build.compute("d0", [[top, rest]], "b", box=(0, 8))
    build.deliver([[out]])
    return equip(build.build())


def tiny_replicas(in_flight: int = 4, shares: tuple[int, ...] = ()) -> Tiny:
    """Return replicas of one stage, one on each of two other devices, or one for each share."""
    count = len(shares) or 2
    build = ProgramBuilder(1 + count, in_flight=in_flight, routes=(count,))
    build.shares = (shares,) if shares else ()
    fed = build.feed()
    copies = []
    for index, device in enumerate(build.names[1:]):
        when = ((0, index),)
        there = build.send(fed, device, credit=in_flight, when=when)
        made = build.compute(device, [[there]], "a", when=when)
        copies.append(build.send(made, "d0", credit=in_flight, when=when))
    build.deliver([copies])
    return equip(build.build())


def random_inputs(program: Program, count: int = 1, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Return inputs for ``count`` requests."""
    rng = np.random.default_rng(seed)
    return [
        {spec.name: rng.standard_normal(spec.shape, np.float32) for spec in program.inputs}
        for _ in range(count)
    ]
