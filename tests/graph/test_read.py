"""Reading models: what is accepted, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from partita.errors import ModelError
from partita.graph import load_graph
from tests.models import (
    light_model,
    make_model,
    plate_path,
    random_inputs,
    relative_difference,
    run_model,
)

WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 3, 3), np.float32)


def conv_model(shape: tuple[int | str, ...] = (1, 3, 8, 8)) -> onnx.ModelProto:
    """Return one convolution without a name."""
    return make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])], {"x": shape}, ["y"], {"w": WEIGHT}
    )


def refusal(source: object, **options: object) -> str:
    """Return the one line with which a model is refused."""
    with pytest.raises(ModelError) as caught:
        load_graph(source, **options)  # type: ignore[arg-type]
    assert "\n" not in caught.value.message
    return caught.value.message


def test_path_bytes_and_proto_give_one_hash(tmp_path: Path) -> None:
    """A model is the same graph however it is handed over."""
    model = conv_model()
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    graphs = [load_graph(s) for s in (path, str(path), path.read_bytes(), model)]
    assert len({graph.hash for graph in graphs}) == 1
    assert [graph.name for graph in graphs] == ["small"] * 4


def test_model_in_memory_is_not_changed() -> None:
    """Loading leaves the caller's model as it was."""
    model = conv_model()
    before = model.SerializeToString()
    load_graph(model)
    assert model.SerializeToString() == before


def test_initializers_listed_as_inputs_are_not_inputs() -> None:
    """An IR 3 file lists its weights among the inputs; only the picture is fed."""
    model = light_model("squeezenet")
    assert model.ir_version == 3
    assert len(model.graph.input) > 1
    assert load_graph(model).inputs == ("data_0",)


def test_external_data_is_read_and_missing_file_is_named(tmp_path: Path) -> None:
    """Weights in a file of their own are found; without it the file is named."""
    path = tmp_path / "big.onnx"
    onnx.save(conv_model(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert np.array_equal(load_graph(path).constants["w"], WEIGHT)
    assert "'w.bin'" in refusal(path.read_bytes())
    (tmp_path / "w.bin").write_bytes(b"short")
    assert "damaged in file 'w.bin'" in refusal(path)
    (tmp_path / "w.bin").unlink()
    assert "w.bin' , which is missing".replace(" ,", ",") in refusal(path)


def test_free_dimensions_are_listed_and_fixed() -> None:
    """Free dimensions are refused by name and accepted once a shape is given."""
    model = conv_model(("batch", 3, "height", 8))
    said = refusal(model)
    assert said == "input 'x' has free dimensions: batch, height; give --shape x=1x3x224x8"
    graph = load_graph(model, shapes={"x": (2, 3, 10, 8)})
    assert graph.tensors["y"].shape == (2, 4, 8, 6)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"z": (1,)}, "has no input 'z': its inputs are x"),
        ({"x": (1, 3, 8)}, "cannot have shape 1x3x8: the model says batchx3x8x8"),
        ({"x": (1, 4, 8, 8)}, "cannot have shape 1x4x8x8"),
        ({"x": (0, 3, 8, 8)}, "cannot have shape 0x3x8x8"),
        ({"x": (1, 3, 8, 9)}, "cannot have shape 1x3x8x9"),
        ({"x": 8}, "The shape of input 'x' is 8: allowed is a list of whole numbers"),
        ({"x": "8xh"}, "The shape of input 'x' is '8xh': allowed is a list"),
        ([1, 3, 8, 8], "Shapes are of type list: allowed are extents by the name"),
    ],
)
def test_wrong_shapes_are_refused(shapes: Any, said: str) -> None:
    """A shape for an unknown input, of another rank or against a fixed extent is an error."""
    assert said in refusal(conv_model(("batch", 3, 8, 8)), shapes=shapes)


def test_shape_too_small_for_the_network_is_refused() -> None:
    """A shape that makes a layer's output empty is an error that names the model."""
    said = refusal(conv_model((1, 3, "h", 8)), shapes={"x": (1, 3, 2, 8)}, name="tiny")
    assert "'tiny'" in said


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Truncated, empty, random and foreign files are no models, and say so."""
    whole = conv_model().SerializeToString()
    noise = np.random.default_rng(3).integers(0, 256, 4096, np.uint8).tobytes()
    for data in (b"", whole[: len(whole) // 2], whole[:-3], noise, b"\x89PNG\r\n\x1a\n", b"{}"):
        path = tmp_path / "bad.onnx"
        path.write_bytes(data)
        assert "bad.onnx" in refusal(path)
    assert "cannot be read" in refusal(tmp_path / "none.onnx")
    assert "no regular file" in refusal(tmp_path)


def test_unknown_domain_is_refused() -> None:
    """An operator that ONNX Runtime does not know is named with its domain."""
    model = make_model(
        [helper.make_node("Magic", ["x"], ["y"], domain="acme.ops")], {"x": (1,)}, ["y"]
    )
    model.opset_import.append(helper.make_opsetid("acme.ops", 1))
    assert "'acme.ops' (Magic)" in refusal(model)


def test_unknown_standard_operator_is_refused() -> None:
    """A standard operator that does not exist breaks the ONNX rules."""
    model = make_model([helper.make_node("Convv", ["x"], ["y"])], {"x": (1,)}, ["y"])
    assert "Convv" in refusal(model)


def test_old_opset_is_refused() -> None:
    """Opset 6 is too old, and the oldest allowed is named."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"], opset=6)
    assert "has opset 6: allowed are 7 and newer" in refusal(model)


def test_float16_model_keeps_its_type() -> None:
    """A float16 model loads as float16 and computes what the file computes."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    constants = {"w": WEIGHT.astype(np.float16)}
    constants |= {key: np.full(4, 0.5, np.float16) for key in "sbmv"}
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants, dtype=TensorProto.FLOAT16)
    graph = load_graph(model)
    assert graph.tensors["y"].dtype == "float16"
    assert [node.op for node in graph.nodes] == ["Conv", "Relu"]
    feeds = random_inputs(model)
    ours, theirs = run_model(graph.to_model(), feeds), run_model(model, feeds)
    assert relative_difference(ours, theirs) < 2e-3


def test_functions_are_inlined() -> None:
    """A model's own functions are opened up before anything else."""
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    model = make_model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": (2,)}, ["y"])
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert [node.op for node in load_graph(model).nodes] == ["Add"]


def test_sequence_output_is_refused() -> None:
    """An output that is not a tensor is an error that names it."""
    model = make_model([helper.make_node("SequenceConstruct", ["x"], ["s"])], {"x": (1,)}, ["s"])
    model.graph.output[0].CopyFrom(
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    )
    assert "Output 's' is not a tensor" in refusal(model)


@pytest.mark.skipif(plate_path("det") is None, reason="the plate models are not installed")
def test_real_detector_needs_its_shape() -> None:
    """The plate detector has free dimensions, and with them fixed all its tensors are static."""
    path = plate_path("det")
    assert path is not None
    assert "free dimensions: B, H, W; give --shape image=1x3x224x224" in refusal(path)
    graph = load_graph(path, shapes={"image": (1, 3, 96, 128)})
    assert all(min(spec.shape) > 0 for spec in graph.tensors.values())
    ours = run_model(graph.to_model(), feeds := {"image": np.ones((1, 3, 96, 128), np.float32)})
    assert relative_difference(ours, run_model(onnx.load(path), feeds)) <= 1e-5


def test_weight_bits_survive() -> None:
    """A weight that nothing is folded into is the file's, bit for bit."""
    model = conv_model()
    kept = numpy_helper.to_array(load_graph(model).to_model().graph.initializer[0])
    assert kept.tobytes() == WEIGHT.tobytes()
