"""Models that the engine cannot run are refused in one line when they are read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from partita.errors import ModelError
from partita.graph import load_graph
from partita.graph.node import wrap_node
from tests.models import make_model


def within_branches(node: onnx.NodeProto) -> onnx.ModelProto:
    """Return a model that has a node, which writes ``t``, in both branches of an ``If``."""
    value = helper.make_tensor_value_info("t", TensorProto.FLOAT, [1, 3, 8, 8])
    body = helper.make_graph([node], "body", [], [value])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"])
    if node.domain:
        model.opset_import.append(helper.make_opsetid(node.domain, 1))
    return model


@pytest.mark.parametrize("filters", [4, 64])
def test_an_operator_without_a_kernel_for_its_type(filters: int) -> None:
    """The engine convolves no doubles, however many weights there are."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    weights = {"w": np.ones((filters, 3, 3, 3))}
    model = make_model([node], {"x": (1, 3, 8, 8)}, ["y"], weights, dtype=TensorProto.DOUBLE)
    with pytest.raises(ModelError, match=r"^Model 'small' cannot run: .*implementation for Conv"):
        load_graph(model)


@pytest.mark.parametrize(
    ("domain", "said"),
    [("acme", r"domain 'acme' \(Magic\)"), ("com.microsoft", "Magic"), ("", "Magic")],
)
def test_an_operator_that_does_not_exist_within_a_branch(domain: str, said: str) -> None:
    """What lies in bodies has to be known, too."""
    model = within_branches(helper.make_node("Magic", ["x"], ["t"], domain=domain))
    with pytest.raises(ModelError, match=said):
        load_graph(model)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (b"Relu", "node whose op_type"),
        (b"mid", "node whose output"),
        (b"title", "graph whose name"),
    ],
)
def test_names_that_are_no_text(old: bytes, said: str) -> None:
    """Every byte passes through protocol buffers; the message says where it is wrong."""
    nodes = [helper.make_node("Relu", ["x"], ["mid"]), helper.make_node("Abs", ["mid"], ["y"])]
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"])
    model.graph.name = "title"
    data = model.SerializeToString().replace(old, b"\xff" + old[1:])
    with pytest.raises(ModelError, match=f"has a {said} is no UTF-8 text: b'.xff"):
        load_graph(data)


def test_a_weight_of_text_that_is_none() -> None:
    """A damaged weight is named, also one that a node holds."""
    tensor = helper.make_tensor("k", TensorProto.STRING, [1], [b"\xff\xfe"])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    with pytest.raises(ModelError, match=r"Weight 'k' of model 'small' is damaged"):
        load_graph(make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"]))


def test_attributes_that_are_no_text_stay_as_they_are() -> None:
    """ONNX calls them bytes: what is written into a fragment is what the file has."""
    proto = helper.make_node("Any", ["x"], ["y"], key=b"\xff\x00", keys=[b"\xfe", b"text"])
    node = wrap_node(proto, 0)
    assert dict(node.attrs) == {"key": b"\xff\x00", "keys": [b"\xfe", "text"]}
    again = helper.make_node("Any", ["x"], ["y"], **node.attrs)
    assert list(again.attribute) == list(proto.attribute)
