"""One operator as a model, computed for a box through its region rule and by ONNX Runtime whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from partita.compile import work_builder, write_work
from partita.engine import OrtEngine
from partita.graph import Graph, load_graph
from partita.graph.fragment import BlobStore
from partita.regions import Region

Array = np.ndarray[Any, Any]


def make_single(
    op: str,
    inputs: dict[str, Array],
    constants: dict[str, Array] | None = None,
    *,
    order: list[str] | None = None,
    outputs: int = 1,
    opset: int = 18,
    **attrs: Any,
) -> onnx.ModelProto:
    """Return a model of one operator; ``order`` names its inputs (empty text for an absent one)."""
    consts = constants or {}
    names = order or [*inputs, *consts]
    made = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, made, name="core", **attrs)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in made]
    graph = helper.make_graph([node], "single", values, results)
    for name, array in consts.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def run_whole(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Return the outputs of a model by ONNX Runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def run_box(graph: Graph, feeds: dict[str, Array], boxes: dict[str, Region]) -> list[Array]:
    """Return boxes of the graph's outputs, computed by one fragment over all layers."""
    builder = work_builder(graph)
    work = builder.stage(tuple(layer.name for layer in graph.layers), boxes)
    store = BlobStore(graph)
    fragment = write_work(builder, work, store)
    runner = OrtEngine(threads=1).load(
        fragment.graph, {name: store.blobs[name] for name in fragment.blobs}
    )
    arrays = [np.ascontiguousarray(feeds[name][box.slices()]) for name, box in work.inputs]
    return runner.run(arrays)


def draw_box(rng: np.random.Generator, shape: tuple[int, ...], axes: list[int]) -> Region:
    """Return a random non-empty box that divides ``axes`` and is whole along the others."""
    bounds = []
    for axis, extent in enumerate(shape):
        if axis in axes and extent > 1:
            start = int(rng.integers(0, extent))
            bounds.append((start, int(rng.integers(start + 1, extent + 1))))
        else:
            bounds.append((0, extent))
    return Region(tuple(bounds))


def assert_boxes_equal(
    model: onnx.ModelProto,
    feeds: dict[str, Array],
    *,
    axes: list[int],
    count: int = 8,
    seed: int = 0,
) -> None:
    """Check that random boxes of every output equal the same boxes of the whole output."""
    expected = run_whole(model, feeds)
    graph = load_graph(model)
    rng = np.random.default_rng(seed)
    names = list(graph.outputs)
    for _ in range(count):
        boxes = {
            name: draw_box(rng, array.shape, [axis for axis in axes if axis < array.ndim])
            for name, array in zip(names, expected, strict=True)
        }
        for (name, box), got, whole in zip(
            boxes.items(), run_box(graph, feeds, boxes), expected, strict=True
        ):
            part = whole[box.slices()]
            assert got.shape == part.shape, (name, box)
            scale = max(1e-6, float(np.abs(whole.astype(np.float64)).max()))
            error = float(np.abs(got.astype(np.float64) - part).max(initial=0.0))
            assert error <= 1e-5 * scale, (name, str(box), error, scale)
