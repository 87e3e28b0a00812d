"""The zoo's models are the published ones in shape, and behave like trained ones in size."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from partita.errors import ModelError
from partita.zoo import ZOO, build_model, write_model

#: torchvision 0.23 documentation, weights tables: num_params, GFLOPS (it counts one
#: multiply-accumulate as one operation). Papers: VGG (138 and 144 M), ResNet-50 (25.6 M),
#: MobileNet-v2 (3.4 M, 300 M MAC), EfficientNet-B0 (5.3 M, 0.39 G MAC), all rounded.
PUBLISHED = {
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "resnet50": (25_557_032, 4.09),
    "mobilenet_v2": (3_504_872, 0.30),
    "efficientnet_b0": (5_288_548, 0.39),
}


def count_parameters(model: onnx.ModelProto) -> int:
    """Return the learned numbers: all initializers but running statistics and clip bounds."""
    fixed = {
        name for n in model.graph.node if n.op_type == "BatchNormalization" for name in n.input[3:]
    }
    fixed |= {name for n in model.graph.node if n.op_type == "Clip" for name in n.input[1:]}
    return sum(math.prod(w.dims) for w in model.graph.initializer if w.name not in fixed)


def count_macs(model: onnx.ModelProto) -> int:
    """Return multiply-accumulates of convolutions and matrix products from ONNX's own shapes."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for weight in bare.graph.initializer:
        weight.raw_data = b""
    shapes = {w.name: list(w.dims) for w in model.graph.initializer}
    del bare.graph.initializer[:]
    for name, dims in shapes.items():
        bare.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, dims))
    inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True)
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return sum(
        math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        for node in model.graph.node
        if node.op_type in ("Conv", "Gemm")
    )


def run_model(model: onnx.ModelProto, outputs: list[str] | None = None) -> list[np.ndarray]:
    """Return the outputs for a normal image, on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    shape = session.get_inputs()[0].shape
    image = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    return session.run(outputs, {"input": image})


def test_zoo_lists_the_published_models() -> None:
    """Every model on offer has a published count to meet and names its source."""
    assert set(ZOO) == set(PUBLISHED)
    assert all(entry.name == name and entry.source for name, entry in ZOO.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_counts_are_the_published_ones(name: str) -> None:
    """Parameters are exact, and multiply-accumulates agree to the printed digits."""
    parameters, giga_macs = PUBLISHED[name]
    model = build_model(name)
    assert count_parameters(model) == ZOO[name].parameters == parameters
    assert count_macs(model) == ZOO[name].macs
    assert round(ZOO[name].macs / 1e9, 2) == giga_macs


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"vgg16", "vgg19"}))
def test_models_are_valid_onnx(name: str) -> None:
    """ONNX's checker accepts the model and infers the shape that it declares."""
    model = build_model(name, batch=2, size=64)
    onnx.checker.check_model(model, full_check=True)
    (output,) = model.graph.output
    assert [d.dim_value for d in output.type.tensor_type.shape.dim] == [2, 1000]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_values_neither_explode_nor_vanish(name: str) -> None:
    """Activations of every layer and the logits stay within one order of magnitude of one."""
    size = 64 if name.startswith("vgg") else 224  # at 224 building a VGG takes seconds
    model = build_model(name, size=size)
    kinds = ("Conv", "Gemm", "Add")
    watched = [node.output[0] for node in model.graph.node if node.op_type in kinds]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in watched)
    spreads = [float(np.sqrt(np.mean(value**2))) for value in run_model(model)]
    assert min(spreads) > 0.1
    assert max(spreads) < 10
    assert 0.3 < spreads[-1] < 3


def test_weights_depend_on_the_seed_alone() -> None:
    """The same seed gives the same bytes, another seed other weights, another size the same."""
    first = build_model("mobilenet_v2", seed=3)
    assert first.SerializeToString() == build_model("mobilenet_v2", seed=3).SerializeToString()
    other = build_model("mobilenet_v2", seed=4)
    larger = build_model("mobilenet_v2", seed=3, size=256)
    weights = [numpy_helper.to_array(m.graph.initializer[0]) for m in (first, other, larger)]
    assert not np.array_equal(weights[0], weights[1])
    assert np.array_equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("alexnet", {}), ("vgg16", {"size": 16}), ("vgg16", {"batch": 0}), ("vgg16", {"seed": -1})],
)
def test_bad_requests_are_refused(name: str, wrong: dict[str, int]) -> None:
    """An unknown name or a number out of range is an error that says what is allowed."""
    with pytest.raises(ModelError, match=r"it has vgg16|at least \d+ is allowed"):
        build_model(name, **wrong)


def test_file_is_whole_or_absent(tmp_path: Path) -> None:
    """A model is written under its name, and a folder that is missing leaves nothing behind."""
    model = build_model("mobilenet_v2", size=32)
    write_model(model, tmp_path / "m.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    assert onnx.load(tmp_path / "m.onnx") == model
    with pytest.raises(ModelError, match="cannot be written"):
        write_model(model, tmp_path / "no" / "m.onnx")
