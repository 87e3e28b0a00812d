"""Tensors that lie in files beside the model, wherever the model names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from partita.errors import ModelError
from partita.graph import load_graph
from tests.models import Array, make_model, run_model

WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 3, 3), np.float32)
FEEDS = {"x": np.ones((1, 3, 8, 8), np.float32)}


def stored(name: str, array: Array, location: str = "w.bin", **entries: int) -> TensorProto:
    """Return a tensor whose bytes lie in a file."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, dims=array.shape, data_type=kind)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def constant_model(tensor: TensorProto) -> onnx.ModelProto:
    """Return a convolution whose weight is a ``Constant`` node's."""
    nodes = [
        helper.make_node("Constant", [], ["w"], value=tensor),
        helper.make_node("Conv", ["x", "w"], ["y"]),
    ]
    return make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"])


def branch_model(tensor: TensorProto, *, as_node: bool) -> onnx.ModelProto:
    """Return a model that reads its weight within the branches of an ``If``."""
    conv = helper.make_node("Conv", ["x", "w"], ["t"])
    value = helper.make_node("Constant", [], ["w"], value=tensor)
    body = helper.make_graph(
        [value, conv] if as_node else [conv],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, [1, 4, 6, 6])],
        [] if as_node else [tensor],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    return make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"])


def models(tensor: TensorProto) -> list[onnx.ModelProto]:
    """Return models that hold the tensor in each place where one can be."""
    direct = make_model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 3, 8, 8)}, ["y"])
    direct.graph.initializer.append(tensor)
    branches = [branch_model(tensor, as_node=as_node) for as_node in (False, True)]
    return [direct, constant_model(tensor), *branches]


@pytest.mark.parametrize("place", range(4))
def test_files_lie_in_the_models_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """A file of that name in the current folder is another file."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    model = models(stored("w", WEIGHT))[place]
    (home / "m.onnx").write_bytes(model.SerializeToString())
    (home / "w.bin").write_bytes(WEIGHT.tobytes())
    (elsewhere / "w.bin").write_bytes((WEIGHT + 1).tobytes())
    monkeypatch.chdir(elsewhere)
    answer = run_model(load_graph(home / "m.onnx").to_model(), FEEDS)
    expected = run_model(models(numpy_helper.from_array(WEIGHT, "w"))[place], FEEDS)
    assert np.array_equal(answer[0], expected[0])
    (home / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"home/w.bin', which is missing"):
        load_graph(home / "m.onnx")
    with pytest.raises(ModelError, match=r"given as bytes must hold its weights"):
        load_graph(model.SerializeToString())


@pytest.mark.parametrize("place", range(4))
def test_links_are_followed(tmp_path: Path, place: int) -> None:
    """Some caches keep files under their hashes, and models as links to them."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots/1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "a1").write_bytes(models(stored("w", WEIGHT))[place].SerializeToString())
    (blobs / "b2").write_bytes(WEIGHT.tobytes())
    (snapshot / "m.onnx").symlink_to("../../blobs/a1")
    (snapshot / "w.bin").symlink_to("../../blobs/b2")
    load_graph(snapshot / "m.onnx")


def test_the_data_may_lie_where_a_link_leads(tmp_path: Path) -> None:
    """A link to a model elsewhere needs no link to its data."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "m.onnx").write_bytes(constant_model(stored("w", WEIGHT)).SerializeToString())
    (home / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "link.onnx").symlink_to(home / "m.onnx")
    assert np.array_equal(load_graph(tmp_path / "link.onnx").constants["w"], WEIGHT)


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (stored("w", WEIGHT, "../w.bin"), "allowed are files in the model's folder"),
        (stored("w", WEIGHT, "/etc/passwd"), "allowed are files in the model's folder"),
        (stored("w", WEIGHT, length=8), "names 8 bytes, its shape takes 432"),
        (stored("w", WEIGHT, offset=8), "ends at byte 440, the file has 432 bytes"),
        (stored("w", WEIGHT, offset=-8), "names 432 bytes"),
        (stored("w", np.zeros((4, 3, 3, 4), np.float32)), "the file has 432 bytes"),
    ],
)
def test_what_the_file_does_not_hold_is_named(
    tmp_path: Path, tensor: TensorProto, said: str
) -> None:
    """Nothing outside of the folder is read, nor beyond the file's end."""
    (tmp_path / "m.onnx").write_bytes(constant_model(tensor).SerializeToString())
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    with pytest.raises(ModelError, match=said):
        load_graph(tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", ["FLOAT16", "INT8", "INT4", "UINT4", "INT64", "BOOL"])
def test_types_of_every_width_are_read(tmp_path: Path, kind: str) -> None:
    """Those of less than a byte are packed, two in one."""
    whole = numpy_helper.from_array(np.arange(6, dtype=np.int64) % 2, "k")
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    values = numpy_helper.to_array(whole).astype(dtype)
    packed = numpy_helper.from_array(values, "k").raw_data
    (tmp_path / "w.bin").write_bytes(b"1234" + packed)
    nodes = [
        helper.make_node("Constant", [], ["k"], value=stored("k", values, offset=4)),
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    model = make_model(nodes, {"x": (6,)}, ["y"], opset=21)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    constants = load_graph(tmp_path / "m.onnx").constants
    assert [list(map(float, array)) for array in constants.values()] == [[0, 1, 0, 1, 0, 1]]
