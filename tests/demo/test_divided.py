import pytest

from partita.compile import compile_plan
from partita.demo.cluster import load_demo_cluster
from partita.demo.detector import detector_model, image_to_input
from partita.demo.photo import draw_photo
from partita.demo.reader import read_plates
from partita.demo.whole import compare_outputs, run_whole
from partita.exactness.compare import run_program
from partita.graph import load_graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region

#: Rows of the coarsest grid, 15 in all, that each device answers for.
ROWS = {"gateway": (0, 6), "recorder": (6, 10), "phone": (10, 13), "camera": (13, 15)}


def _plan(graph, cluster):
    """All that keeps the image's rows divided over the devices, the rest on the camera."""
    reorder = {"Transpose", "Reshape", "Flatten", "Softmax"}
    body = [
        layer
        for layer in graph.layers
        if layer.kind not in reorder and len(graph.tensors[layer.outputs[0]].shape) == 4
    ]
    names = [layer.name for layer in body]
    outputs = [
        tensor
        for layer in body
        for tensor in layer.outputs
        if any(reader.name not in names for reader in graph.readers(tensor))
    ]
    shards = tuple(
        Shard(device, {t: _rows(graph.tensors[t].shape, *rows) for t in outputs})
        for device, rows in ROWS.items()
    )
    tail = tuple(layer.name for layer in graph.layers if layer.name not in names)
    stages = (
        Stage("body", tuple(names), "rows", shards),
        Stage("tail", tail, "none", (Shard("camera"),)),
    )
    identities = Identity(graph.name, graph.hash), Identity(cluster.name, cluster.hash)
    return Plan(*identities, stages, "hand")


def _rows(shape, start, stop):
    scale = shape[2] // 15
    return Region.full(shape).with_axis(2, (start * scale, stop * scale))


@pytest.mark.slow
def test_divided_detector_reads_the_same_plates():
    """Divided by rows over four devices, the trained detector answers as the whole one does."""
    pixels, drawn = draw_photo(0)
    inputs = {"image": image_to_input(pixels)}
    model, cluster = detector_model(), load_demo_cluster()
    graph = load_graph(model)
    answer, _ = run_program(compile_plan(graph, _plan(graph, cluster), cluster), inputs)
    differences = compare_outputs(run_whole(model, inputs), answer)
    assert [difference.tensor for difference in differences] == ["loc", "conf", "landms"]
    assert max(difference.relative for difference in differences) <= 1e-5
    assert [plate.text for plate in read_plates(pixels, answer)] == [p.text for p in drawn]
