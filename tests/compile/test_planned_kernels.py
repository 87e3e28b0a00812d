"""Which kernels a plan asks for: the model's own where it says nothing else."""

from __future__ import annotations

import msgspec
import numpy as np

from partita.cluster import Cluster
from partita.compile import compile_plan, planned_graph
from partita.exactness.interpret import run_program
from partita.graph import load_graph
from partita.graph.quantised import with_kernels
from partita.plan import Identity, Plan, Shard, Stage, dump_plan, load_plan
from partita.regions import LayerBits
from tests.compile.samples import small_graph
from tests.graph.test_read_quantised import draw_image
from tests.quantised_models import residual_network


def test_a_quantised_model_keeps_its_kernels_unless_told() -> None:
    """Its plan is of integer kernels; with the switch off the same stages run on floats."""
    graph, cluster = load_graph(residual_network()), Cluster.of(["here"])
    layers = tuple(layer.name for layer in graph.layers)
    stages = (Stage("s", layers, "none", (Shard("here"),)),)
    plan = Plan(Identity("m", graph.hash), Identity("c", cluster.hash), stages, planner="by hand")
    assert planned_graph(graph, plan) is graph
    floats = with_kernels(graph, integer=False)
    assert floats.hash != graph.hash
    plan = msgspec.structs.replace(plan, model=Identity("m", floats.hash))
    again = planned_graph(graph, load_plan(dump_plan(plan)))
    assert (again.integer, again.hash) == (False, floats.hash)
    for integer in (False, True):
        plan = msgspec.structs.replace(plan, integer_kernels=integer)
        compiled = compile_plan(graph, plan, cluster)
        assert (compiled.program.fragments[0].weight_bytes > 20_000) == (not integer)
        outputs, _ = run_program(compiled, draw_image())
        assert np.isfinite(outputs["y"]).all()


def test_bits_and_kernels_are_planned_together() -> None:
    """A plan of bits runs on integer kernels where it says so, in a graph of its own hash."""
    graph = small_graph()
    weighty = next(layer.name for layer in graph.layers if layer.weight_bytes)
    bits = {weighty: LayerBits(weight=8)}
    plan = Plan(Identity("m", ""), Identity("c", ""), (), planner="by hand", bits=bits)
    planned = planned_graph(graph, plan)
    plan = msgspec.structs.replace(plan, integer_kernels=True)
    other = planned_graph(graph, plan)
    assert (planned.integer, other.integer) == (False, True)
    assert planned.hash != other.hash
    assert planned_graph(graph, plan) is other
