"""What messages and requests cost in a lab beyond computing, measured, as a cost model takes it."""

from __future__ import annotations

import statistics

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.harness import draw_inputs, whole_plan
from partita.cluster import Cluster, Link
from partita.compile import compile_plan
from partita.cost import CostOptions
from partita.fabric import Endpoint
from partita.graph import Graph, load_graph
from partita.leader import deploy, measure_link
from partita.profile import fit_link

#: Message sizes in bytes.
SIZES = (4096, 65_536, 262_144, 1_048_576)
REPEATS = 9


def measure_free_link(endpoint: Endpoint, source: str, target: str) -> Link:
    """Return the link between two workers of a lab that is not shaped, as this machine has it."""
    samples = measure_link(endpoint, source, target, SIZES, repeats=REPEATS)
    found = fit_link([(sample.size_bytes, sample.seconds) for sample in samples])
    return Link(source, target, found.bytes_per_s, latency_s=found.per_message_s)


def measure_fixed_costs(endpoint: Endpoint, cluster: Cluster, graph: Graph) -> CostOptions:
    """Return what a message and a request cost beyond emulated links and computing.

    Half of a message's cost falls to its sender, half to its receiver.
    """
    half_s = statistics.median(_beyond_s(endpoint, link) for link in cluster.links) / 2
    admit_s = measure_admit_s(endpoint, cluster, graph)
    return CostOptions(admit_s=admit_s, receive_s=half_s, send_s=half_s)


def _beyond_s(endpoint: Endpoint, link: Link) -> float:
    """Return what a message of 64 KiB takes beyond the emulated link's own time."""
    (sample,) = measure_link(endpoint, link.source, link.target, SIZES[1:2], repeats=REPEATS)
    ideal_s = link.per_message_s + sample.size_bytes / link.bandwidth_bytes_per_s + link.latency_s
    return max(0.0, sample.seconds - ideal_s)


def measure_admit_s(endpoint: Endpoint, cluster: Cluster, graph: Graph) -> float:
    """Return what leader and requester do per request: a run that computes next to nothing.

    Its inputs are the network's, of which it only reads a corner.
    """
    corner = load_graph(_corner_model(graph))
    compiled = compile_plan(corner, whole_plan(corner, cluster, cluster.requester), cluster)
    inputs = draw_inputs(corner)
    with deploy(compiled, endpoint) as session:
        session.run([inputs] * 3, in_flight=1)
        session.run([inputs] * REPEATS, in_flight=1)
        found = session.report()
    computed_s = sum(use.busy_s for use in found.devices) / len(found.latencies_s)
    return max(0.0, found.quantile_s(0.5) - computed_s)


def _corner_model(graph: Graph) -> onnx.ModelProto:
    nodes, constants, inputs, outputs = [], [], [], []
    for number, name in enumerate(graph.inputs):
        spec = graph.tensors[name]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
        rank = len(spec.shape)
        ends = {f"from{number}": np.zeros(rank, np.int64), f"to{number}": np.ones(rank, np.int64)}
        constants += [numpy_helper.from_array(array, key) for key, array in ends.items()]
        nodes.append(helper.make_node("Slice", [name, *ends], [f"corner{number}"]))
        inputs.append(helper.make_tensor_value_info(name, kind, spec.shape))
        outputs.append(helper.make_tensor_value_info(f"corner{number}", kind, [1] * rank))
    made = helper.make_graph(nodes, "corner", inputs, outputs, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
