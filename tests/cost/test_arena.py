"""What the engine's arena holds: pieces cut from ranges of addresses, as far as ever written."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from onnx import helper

from partita.cluster import Cluster
from partita.compile import FragmentWork, compile_plan, work_builder
from partita.cost.arena import arena_bytes
from partita.engine import OrtEngine
from partita.engine.base import make_inputs
from partita.graph import Graph
from partita.memory import ARENA_BYTES, private_bytes, release
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region
from partita.worker.serve import tune_memory
from tests.planners.fakes import conv, make_graph, make_wide

#: One channel of 16 x 16 numbers.
MAP = 16 * 16 * 4


def whole_work(graph: Graph) -> FragmentWork:
    """Return all layers as one fragment."""
    outputs = {tensor: Region.full(graph.tensors[tensor].shape) for tensor in graph.outputs}
    return work_builder(graph).stage(tuple(layer.name for layer in graph.layers), outputs)


def ran_bytes(graph: Graph) -> int:
    """The bytes that the arena has once all layers have run, what they made among them."""
    made = sum(graph.size_bytes(tensor) for tensor in graph.outputs)
    return arena_bytes(graph, whole_work(graph)) + made


def test_equal_tensors_take_turns() -> None:
    """Of four maps in a row, two lie in the arena at a time, beside the input's place."""
    graph = make_wide(8, 8, 8, 8, size=16)
    assert ran_bytes(graph) == (3 + 2 * 8) * MAP


def test_what_is_free_lies_between() -> None:
    """Each of 4, 8, 16 and 32 channels is larger than all that is free before it: nothing moves."""
    graph = make_wide(4, 8, 16, 32, size=16)
    assert ran_bytes(graph) == (3 + 4 + 8 + 16 + 32) * MAP


def test_free_neighbours_become_one_piece() -> None:
    """Maps of 8, 8 and 16 channels leave room for 32."""
    graph = make_wide(8, 8, 16, 32, 32, size=16)
    assert ran_bytes(graph) == (3 + 8 + 8 + 16 + 32) * MAP


def test_pieces_are_cut_to_size() -> None:
    """Beside a map of 20 channels, one of 12 lies in the place of one of 32."""
    graph = make_wide(32, 20, 12, 20, size=16)
    assert ran_bytes(graph) == (3 + 32 + 20) * MAP


def test_what_has_no_room_in_the_first_range_takes_another() -> None:
    """Two maps of 20 MB: each has a range of its own, the second's index counts."""
    graph = make_wide(20, 20, size=512)
    pieces = (3 + 20 + 20) * 512 * 512 * 4
    assert ran_bytes(graph) == pieces + 2 * ARENA_BYTES // 32


def test_a_tensor_that_its_layer_reads_twice_stays_beside_its_output() -> None:
    """The product of a map and its sigmoid takes two maps where a sigmoid alone takes one."""
    sizes = []
    for gated in (False, True):
        nodes = [
            *conv("c0", "x", "a", (8, 3, 3, 3)),
            helper.make_node("Sigmoid", ["a"], ["b"], name="gate"),
            *([helper.make_node("Mul", ["a", "b"], ["c"], name="gated")] if gated else []),
        ]
        graph = make_graph(nodes, {"x": (1, 3, 16, 16)}, ["c" if gated else "b"])
        assert len(graph.layers) == 1
        sizes.append(ran_bytes(graph))
    assert sizes == [(3 + 8) * MAP, (3 + 16) * MAP]


def test_what_skips_layers_is_held_meanwhile() -> None:
    """A residual sum's other term lies beside what the layers between read and make."""
    nodes = [
        *conv("c0", "x", "a", (8, 3, 3, 3)),
        *conv("c1", "a", "b", (8, 8, 3, 3)),
        *conv("c2", "b", "c", (8, 8, 3, 3)),
        helper.make_node("Add", ["a", "c"], ["d"], name="sum"),
    ]
    graph = make_graph(nodes, {"x": (1, 3, 16, 16)}, ["d"])
    assert ran_bytes(graph) == (3 + 3 * 8) * MAP


def test_a_branch_runs_when_its_sum_is_due() -> None:
    """What both branches of a sum read lies there until the short one has run at last."""
    nodes = [
        *conv("c0", "x", "a", (8, 3, 3, 3)),
        *conv("short", "a", "s", (1, 8, 3, 3)),
        *conv("c1", "a", "b", (16, 8, 3, 3)),
        *conv("c2", "b", "c", (16, 16, 3, 3)),
        *conv("c3", "c", "d", (1, 16, 3, 3)),
        helper.make_node("Add", ["d", "s"], ["e"], name="sum"),
    ]
    graph = make_graph(nodes, {"x": (1, 3, 16, 16)}, ["e"])
    assert ran_bytes(graph) == (3 + 8 + 16 + 16) * MAP


def make_growing(layers: int) -> Graph:
    """A network in which each layer reads all before it: 16 more channels of 128 x 128 numbers."""
    nodes, before = [*conv("c0", "x", "t0", (16, 3, 3, 3))], "t0"
    for number in range(1, layers):
        nodes += conv(f"c{number}", before, f"n{number}", (16, 16 * number, 3, 3))
        after = f"t{number}"
        nodes += [helper.make_node("Concat", [before, f"n{number}"], [after], after, axis=1)]
        before = after
    return make_graph(nodes, {"x": (1, 3, 128, 128)}, [before])


def run_growing(layers: int) -> int:
    """The bytes that this process holds more once the engine has run it as one fragment."""
    tune_memory()
    graph = make_growing(layers)
    cluster = Cluster.of(["a"])
    stage = Stage("s0", tuple(layer.name for layer in graph.layers), "none", (Shard("a"),))
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    compiled = compile_plan(graph, Plan(*identities, (stage,), planner="hand"), cluster)
    (info,) = compiled.program.fragments
    runner = OrtEngine(1).load(compiled.graphs[info.hash], compiled.blobs)
    arrays = make_inputs(runner.inputs)
    release()
    before = private_bytes()
    made = runner.run(arrays)
    release()
    assert not any(array.flags.owndata for array in made)  # they lie in the arena
    return private_bytes() - before


def test_the_engine_holds_what_is_predicted() -> None:
    """Concatenations that grow: a process of its own holds the arena's bytes, to 10 %."""
    graph = make_growing(12)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        held = pool.submit(run_growing, 12).result()
    assert held == pytest.approx(ran_bytes(graph), rel=0.1)
