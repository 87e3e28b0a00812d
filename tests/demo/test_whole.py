import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from partita.demo.whole import compare_outputs, run_whole
from partita.errors import RunError


def test_whole_model_runs_by_name():
    """Outputs come back under their names."""
    node = helper.make_node("Neg", ["x"], ["y"])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([node], "neg", values[:1], values[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    answer = run_whole(model, {"x": np.array([1, -2], np.float32)})
    assert answer["y"].tolist() == [-1, 2]


def test_differences_are_per_output():
    """Each output carries its own largest difference and magnitude."""
    whole = {"a": np.array([1.0, -4.0]), "b": np.array([2.0])}
    found = compare_outputs(whole, {"a": np.array([1.0, -3.5]), "b": np.array([2.0])})
    assert [(d.tensor, d.max_difference, d.max_magnitude) for d in found] == [
        ("a", 0.5, 4.0),
        ("b", 0.0, 2.0),
    ]


@pytest.mark.parametrize("divided", [{}, {"a": np.zeros(3)}])
def test_missing_or_misshapen_output(divided):
    """An output that is not there or of another shape is an error, never a difference of zero."""
    with pytest.raises(RunError, match="Output 'a'"):
        compare_outputs({"a": np.zeros(2)}, divided)
