"""The zoo's models are the published ones in shape, and behave like trained ones in size."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from partita.errors import ModelError
from partita.zoo import ZOO, build_model, write_model

#: torchvision 0.23 documentation, weights tables: num_params, GFLOPS (it counts one
#: multiply-accumulate as one operation); Inception-v3 less the auxiliary classifier, which takes no
#: part in inference (GoogLeNet's count is without). Papers: VGG (138 and 144 M), ResNet-50 (25.6
#: M), MobileNet-v2 (3.4 M, 300 M
#: MAC), EfficientNet-B0 (5.3 M, 0.39 G MAC), SqueezeNet (1.25 M), all rounded.
TORCHVISION = {
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "resnet18": (11_689_512, 1.81),
    "resnet50": (25_557_032, 4.09),
    "resnet152": (60_192_808, 11.51),
    "resnext50_32x4d": (25_028_904, 4.23),
    "mobilenet_v2": (3_504_872, 0.30),
    "mnasnet1_0": (4_383_312, 0.31),
    "efficientnet_b0": (5_288_548, 0.39),
    "googlenet": (6_624_904, 1.50),
    "inception_v3": (27_161_264 - 3_326_696, 5.71),
    "squeezenet": (1_248_424, 0.82),
    "densenet201": (20_013_928, 4.29),
    "ssd_vgg16": (35_641_826, 34.86),
}
#: Those with tests of their own below.
OTHERS = {
    "mobilenet_v1", "yolov2", "ssd_resnet50", "openpose", "voxelnet", "lowlight_resnet",
    "alexnet", "xception", "c3d", "yolov3", "yolov3_spp", "yolov3_tiny", "faster_rcnn",
}  # fmt: skip
#: At these sizes one image takes less than a second; SSD's last maps need nearly all its pixels.
SMALL = {
    "vgg16": 64, "vgg19": 64, "openpose": 128, "yolov2": 160, "voxelnet": 48, "lowlight_resnet": 64,
    "alexnet": 95, "xception": 139, "c3d": 48, "yolov3": 160, "yolov3_spp": 160,
    "yolov3_tiny": 160, "faster_rcnn": 160,
}  # fmt: skip


def list_weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the learned initializers: all but running statistics, clip bounds and shapes."""
    fixed = {
        name for n in model.graph.node if n.op_type == "BatchNormalization" for name in n.input[3:]
    }
    fixed |= {name for n in model.graph.node if n.op_type == "Clip" for name in n.input[1:]}
    floats = (w for w in model.graph.initializer if w.data_type == onnx.TensorProto.FLOAT)
    return [w for w in floats if w.name not in fixed]


def count_parameters(model: onnx.ModelProto) -> int:
    """Return the learned numbers."""
    return sum(math.prod(w.dims) for w in list_weights(model))


def infer_shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the shape of every tensor, as ONNX infers it from those of input and weights."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    weights = [w for w in bare.graph.initializer if w.data_type == onnx.TensorProto.FLOAT]
    shapes = {w.name: list(w.dims) for w in weights}
    for weight in weights:
        bare.graph.initializer.remove(weight)
    for name, dims in shapes.items():
        bare.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, dims))
    inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    graph = inferred.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return shapes


def count_macs(model: onnx.ModelProto) -> int:
    """Return multiply-accumulates of convolutions and matrix products from ONNX's own shapes."""
    shapes = infer_shapes(model)
    total = 0
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "ConvTranspose"):
            # A transposed convolution multiplies once per input element, the others per output.
            counted = node.input[0] if node.op_type == "ConvTranspose" else node.output[0]
            total += math.prod(shapes[counted]) * math.prod(shapes[node.input[1]][1:])
    return total


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
    assert set(ZOO) == set(TORCHVISION) | OTHERS
    assert all(entry.name == name and entry.source for name, entry in ZOO.items())


@pytest.mark.parametrize("name", sorted(ZOO))
def test_catalogue_has_the_counts_of_the_graphs(name: str) -> None:
    """What the catalogue says of a model is what its graph has, and so are the declared shapes."""
    model = build_model(name, weights=False)
    entry = ZOO[name]
    assert count_parameters(model) == entry.parameters
    assert count_macs(model) == entry.macs
    shapes = infer_shapes(model)
    assert shapes["input"] == [1, *entry.shape]
    for output in model.graph.output:
        assert shapes[output.name] == [d.dim_value for d in output.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", sorted(TORCHVISION))
def test_counts_are_the_published_ones(name: str) -> None:
    """Parameters are exact, and multiply-accumulates agree to the printed digits."""
    parameters, giga_macs = TORCHVISION[name]
    assert ZOO[name].parameters == parameters
    assert round(ZOO[name].macs / 1e9, 2) == giga_macs


def test_mobilenet_v1_is_the_published_one() -> None:
    """4,231,976 parameters (TensorFlow-Slim's table), 569 M multiply-adds (paper, table 4)."""
    assert ZOO["mobilenet_v1"].parameters == 4_231_976
    assert round(ZOO["mobilenet_v1"].macs / 1e6) == 569


def test_yolov2_fits_the_published_weights() -> None:
    """Darknet's yolov2.weights has 203,934,260 bytes, a header of 16 and one float per number.

    The file's size stands in github.com/AlexeyAB/darknet/issues/1910; 62.94 GFLOP at 608 x 608 in
    the table of pjreddie.com/darknet/yolov2, which counts an addition beside each multiplication.
    """
    model = build_model("yolov2", size=608, weights=False)
    numbers = sum(math.prod(w.dims) for w in model.graph.initializer)  # with running statistics
    assert 16 + 4 * numbers == 203_934_260
    assert round(2 * count_macs(model) / 1e9, 2) == 62.94


def test_ssd_resnet50_is_nvidias() -> None:
    """22,894,902 parameters, as github.com/yannqi/SSD-for-pytorch prints for NVIDIA's SSD300.

    It also prints 20.213 G operations, which count normalisations and activations; and both SSDs
    predict the paper's 8732 boxes.
    """
    assert ZOO["ssd_resnet50"].parameters == 22_894_902
    assert 0.99 < ZOO["ssd_resnet50"].macs / 20.213e9 < 1
    for name in ("ssd_resnet50", "ssd_vgg16"):
        shapes = infer_shapes(build_model(name, weights=False))
        assert sum(math.prod(shapes[f"boxes{k}"]) for k in range(1, 7)) == 8732 * 4


def test_openpose_fits_the_published_weights() -> None:
    """BODY_25's caffemodel has 104,715,850 bytes: our floats, and the text of about 330 layers."""
    model = build_model("openpose", weights=False)
    rest = 104_715_850 - 4 * ZOO["openpose"].parameters
    assert 100 * len(model.graph.node) < rest < 200 * len(model.graph.node)


def test_voxelnet_has_the_papers_layers() -> None:
    """Parameters are the sum over section 3.1 and figure 4; its input grid gives 200 x 176."""
    middle = 27 * 64 * (128 + 64 + 64)
    blocks = 9 * (4 * 128**2 + 6 * 128**2 + 128 * 256 + 5 * 256**2)
    up = 256 * (128 * 3**2 + 128 * 2**2 + 256 * 4**2)
    norms = 2 * (3 * 64 + 4 * 128 + 6 * 128 + 6 * 256 + 3 * 256)
    heads = (768 + 1) * (2 + 14)
    assert ZOO["voxelnet"].parameters == middle + blocks + up + norms + heads
    shapes = infer_shapes(build_model("voxelnet", weights=False))
    assert shapes["middle.flat"] == [1, 128, 400, 352]
    assert shapes["boxes"] == [1, 14, 200, 176]


def test_lowlight_resnet_is_as_defined() -> None:
    """Parameters are the sum over its definition, and an image goes in and comes out."""
    head, tail = 9 * 12 * 64 + 64 + 64, 9 * 64 * 12 + 12
    block = 2 * (9 * 64**2 + 2 * 64) + 64
    assert ZOO["lowlight_resnet"].parameters == head + 16 * block + 9 * 64**2 + 2 * 64 + tail
    shapes = infer_shapes(build_model("lowlight_resnet", weights=False))
    assert shapes["unpack"] == shapes["input"] == [1, 3, 256, 256]


def test_alexnet_is_one_stream() -> None:
    """62,378,344 parameters: without the two halves of the paper's figure 2, which has 60,965,224.

    Halves take away half of the weights of the second, fourth and fifth convolutions.
    """
    halves = (96 * 25 * 256 + 384 * 9 * 384 + 384 * 9 * 256) // 2
    assert ZOO["alexnet"].parameters == 62_378_344 == 60_965_224 + halves
    shapes = infer_shapes(build_model("alexnet", weights=False))
    assert shapes["conv1"] == [1, 96, 55, 55]
    assert shapes["pool5"] == [1, 256, 6, 6]


def test_xception_has_its_separable_convolutions() -> None:
    """22,855,952 parameters (keras.io: 22,910,480 with statistics), 34 separable convolutions."""
    model = build_model("xception", weights=False)
    numbers = sum(math.prod(w.dims) for w in model.graph.initializer)
    assert (ZOO["xception"].parameters, numbers) == (22_855_952, 22_910_480)
    pairs = zip(model.graph.node, list(model.graph.node)[1:], strict=False)
    separable = sum(
        first.name.endswith(".depthwise") and second.input[0] == first.output[0]
        for first, second in pairs
    )
    assert separable == 34
    assert infer_shapes(model)["exit.add"] == [1, 1024, 10, 10]


def test_c3d_is_the_papers() -> None:
    """79,991,015 parameters with 487 classes; the second convolution is the largest by far."""
    assert ZOO["c3d"].parameters == 79_991_015
    shapes = infer_shapes(build_model("c3d", weights=False))
    assert shapes["pool5"] == [1, 512, 1, 4, 4]
    assert shapes["conv2a"] == [1, 128, 16, 56, 56]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_smallest_size_leaves_something(name: str) -> None:
    """At the smallest size that is allowed every tensor still has elements."""
    model = build_model(name, size=ZOO[name].min_size, weights=False)
    assert all(min(shape, default=1) > 0 for shape in infer_shapes(model).values())


def test_bare_models_have_the_shapes_of_filled_ones() -> None:
    """Without weights a model differs from the filled one in the weights' values alone."""
    filled, bare = build_model("squeezenet"), build_model("squeezenet", weights=False)
    assert not any(weight.raw_data for weight in list_weights(bare))
    for weight in list_weights(filled):
        weight.ClearField("raw_data")
    assert filled == bare


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mobilenet_v1", 64),
        ("mobilenet_v2", 64),
        ("efficientnet_b0", 64),
        ("squeezenet", 64),
        ("voxelnet", 32),
        ("lowlight_resnet", 32),
        ("mnasnet1_0", 32),
        ("yolov3_tiny", 32),
        pytest.param("resnet18", 32, marks=pytest.mark.slow),
        pytest.param("resnext50_32x4d", 32, marks=pytest.mark.slow),
        pytest.param("googlenet", 32, marks=pytest.mark.slow),
        pytest.param("yolov3", 32, marks=pytest.mark.slow),
        pytest.param("yolov3_spp", 32, marks=pytest.mark.slow),
        pytest.param("faster_rcnn", 64, marks=pytest.mark.slow),
        pytest.param("alexnet", 63, marks=pytest.mark.slow),
        pytest.param("xception", 71, marks=pytest.mark.slow),
        pytest.param("c3d", 32, marks=pytest.mark.slow),
        pytest.param("resnet50", 64, marks=pytest.mark.slow),
        pytest.param("inception_v3", 75, marks=pytest.mark.slow),
        pytest.param("densenet201", 64, marks=pytest.mark.slow),
        pytest.param("openpose", 64, marks=pytest.mark.slow),
        pytest.param("yolov2", 64, marks=pytest.mark.slow),
        pytest.param("ssd_resnet50", 300, marks=pytest.mark.slow),
        pytest.param("ssd_vgg16", 300, marks=pytest.mark.slow),
    ],
)
def test_models_are_valid_onnx(name: str, size: int) -> None:
    """ONNX's checker accepts the model and infers the shapes that it declares."""
    model = build_model(name, batch=2, size=size)
    onnx.checker.check_model(model, full_check=True)
    for output in model.graph.output:
        assert output.type.tensor_type.shape.dim[0].dim_value == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ZOO))
def test_values_neither_explode_nor_vanish(name: str) -> None:
    """Activations of every layer and the outputs stay within one order of magnitude of one."""
    model = build_model(name, size=SMALL.get(name))
    kinds = ("Conv", "ConvTranspose", "Gemm", "Add", "Concat")
    outputs = [value.name for value in model.graph.output]
    watched = [node.output[0] for node in model.graph.node if node.op_type in kinds]
    watched = [*outputs, *(name for name in watched if name not in outputs)]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in watched)
    spreads = [float(np.sqrt(np.mean(value**2))) for value in run_model(model)]
    assert min(spreads) > 0.1
    assert max(spreads) < 10
    assert all(0.2 < spread < 3 for spread in spreads[: len(outputs)])


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
    [
        ("lenet", {}),
        ("vgg16", {"size": 16}),
        ("vgg16", {"batch": 0}),
        ("vgg16", {"seed": -1}),
        ("ssd_vgg16", {"size": 224}),
        ("yolov2", {"size": 300}),
    ],
)
def test_bad_requests_are_refused(name: str, wrong: dict[str, Any]) -> None:
    """An unknown name or a number out of range is an error that says what is allowed."""
    with pytest.raises(
        ModelError, match=r"which has: alexnet|at least \d+ is allowed|multiples of 32 are"
    ):
        build_model(name, **wrong)


def test_file_is_whole_or_absent(tmp_path: Path) -> None:
    """A model is written under its name, and a folder that is missing leaves nothing behind."""
    model = build_model("mobilenet_v2", size=32)
    write_model(model, tmp_path / "m.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    assert onnx.load(tmp_path / "m.onnx") == model
    with pytest.raises(ModelError, match="cannot be written"):
        write_model(model, tmp_path / "no" / "m.onnx")
