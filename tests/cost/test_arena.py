"""What the engine's arena holds: regions as they were asked for, never joined or given back."""

from __future__ import annotations

from onnx import helper

from partita.compile import FragmentWork, work_builder
from partita.cost.arena import arena_bytes
from partita.graph import Graph
from partita.regions import Region
from tests.planners.fakes import conv, make_graph, make_wide

#: One channel of 16 x 16 numbers.
MAP = 16 * 16 * 4


def whole_work(graph: Graph) -> FragmentWork:
    """Return all layers as one fragment."""
    outputs = {tensor: Region.full(graph.tensors[tensor].shape) for tensor in graph.outputs}
    return work_builder(graph).stage(tuple(layer.name for layer in graph.layers), outputs)


def test_equal_tensors_take_turns() -> None:
    """Of four maps in a row, two lie in the arena at a time."""
    graph = make_wide(8, 8, 8, 8, size=16)
    assert arena_bytes(graph, whole_work(graph)) == 2 * 8 * MAP


def test_growing_tensors_find_no_room_in_what_is_free() -> None:
    """Each of 4, 8, 16 and 32 channels is larger than all that is free: the arena holds all."""
    graph = make_wide(4, 8, 16, 32, size=16)
    assert arena_bytes(graph, whole_work(graph)) == (4 + 8 + 16 + 32) * MAP


def test_large_pieces_are_cut_and_become_one_again() -> None:
    """Small maps lie in the place of a large one, and then a large one again."""
    graph = make_wide(32, 32, 8, 8, 32, size=16)
    assert arena_bytes(graph, whole_work(graph)) == 2 * 32 * MAP


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
        sizes.append(arena_bytes(graph, whole_work(graph)))
    assert sizes == [8 * MAP, 16 * MAP]


def test_what_skips_layers_is_held_meanwhile() -> None:
    """A residual sum's other term lies beside what the layers between make."""
    nodes = [
        *conv("c0", "x", "a", (8, 3, 3, 3)),
        *conv("c1", "a", "b", (8, 8, 3, 3)),
        *conv("c2", "b", "c", (8, 8, 3, 3)),
        helper.make_node("Add", ["a", "c"], ["d"], name="sum"),
    ]
    graph = make_graph(nodes, {"x": (1, 3, 16, 16)}, ["d"])
    assert arena_bytes(graph, whole_work(graph)) == 3 * 8 * MAP
