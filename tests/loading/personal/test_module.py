"""The operators and optimisers of a trainable child: the engine, differences and PyTorch agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import helper, numpy_helper

from partita.errors import BundleError
from partita.loading.personal.module import TrainableChild
from partita.loading.personal.operators import OPERATORS
from partita.loading.personal.optimisers import Adam, Sgd
from partita.loading.write.trainable_source import SourceGraph

THIRDS = np.array([0.3, 0.6, 1.2], np.float32)
#: Per operator: attributes, shapes of inputs (a list: a constant), as nodes of one sample have.
CASES: dict[str, list[tuple[dict[str, Any], list[Any]]]] = {
    "Add": [({}, [(1, 3, 4), (1, 3, 4)]), ({}, [(1, 3, 4), ("w", 3, 1)])],
    "AveragePool": [
        ({"kernel_shape": [2, 2], "strides": [2, 2]}, [(1, 2, 5, 6)]),
        ({"kernel_shape": [3, 3], "pads": [1, 0, 0, 1]}, [(1, 2, 5, 6)]),
        ({"kernel_shape": [3, 3], "pads": [1] * 4}, [(1, 2, 5, 6)]),
        ({"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}, [(1, 2, 5, 6)]),
    ],
    "BatchNormalization": [({}, [(1, 3, 4, 4), ("w", 3), ("w", 3), THIRDS, THIRDS])],
    "Clip": [({}, [(1, 9), np.float32(-0.4), np.float32(0.6)])],
    "Concat": [({"axis": 1}, [(1, 2, 3), (1, 4, 3)])],
    "Conv": [
        ({"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]}, [(1, 2, 5, 6), ("w", 4, 2, 3, 3)]),
        (
            {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [1, 2], "group": 2},
            [(1, 4, 7, 8), ("w", 6, 2, 3, 3), ("w", 6)],
        ),
        ({"kernel_shape": [3]}, [(1, 2, 7), ("w", 3, 2, 3)]),
        ({"kernel_shape": [3, 3], "pads": [2, 1, 2, 1]}, [(1, 2, 5, 6), ("w", 4, 2, 3, 3)]),
    ],
    "DepthToSpace": [
        ({"blocksize": 2}, [(1, 8, 2, 3)]),
        ({"blocksize": 2, "mode": "CRD"}, [(1, 8, 2, 3)]),
    ],
    "Div": [({}, [(1, 5), ("v", 5)])],
    "Flatten": [({}, [(1, 2, 3, 2)])],
    "Gemm": [
        ({"transB": 1, "alpha": 0.5, "beta": 2.0}, [(1, 5), ("w", 3, 5), ("w", 3)]),
        ({}, [(1, 5), ("w", 5, 3)]),
        ({"transB": 1}, [(1, 5), ("w", 3, 5), ("w", 3)]),
    ],
    "GlobalAveragePool": [({}, [(1, 3, 4, 5)])],
    "HardSigmoid": [({"alpha": 0.3}, [(1, 9)])],
    "HardSwish": [({}, [(1, 9)])],
    "Identity": [({}, [(1, 9)])],
    "LeakyRelu": [({"alpha": 0.2}, [(1, 9)])],
    "MatMul": [({}, [(1, 5), ("w", 5, 3)])],
    "MaxPool": [
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 1]}, [(1, 2, 6, 7)]),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, [(1, 2, 6, 7)]),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, [(1, 2, 6, 8)]),
    ],
    "Mul": [({}, [(1, 3, 4), ("w", 3, 1)])],
    "PRelu": [({}, [(1, 3, 4, 2), ("v", 3, 1, 1)]), ({}, [(1, 3, 4), ("v", 1)])],
    "ReduceMean": [({"axes": [2, 3], "keepdims": 0}, [(1, 2, 3, 4)])],
    "Relu": [({}, [(1, 9)])],
    "Reshape": [
        ({}, [(1, 2, 6), np.array([1, -1])]),
        ({}, [(1, 2, 6), np.array([-1, 3, 4])]),
        ({}, [(1, 2, 6), np.array([0, 0, 2, 3])]),
    ],
    "Sigmoid": [({}, [(1, 9)])],
    "Softmax": [({"axis": 1}, [(1, 9)])],
    "SpaceToDepth": [({"blocksize": 2}, [(1, 2, 4, 6)])],
    "Squeeze": [({}, [(1, 4, 1, 1), np.array([2, 3])])],
    "Sub": [({}, [(1, 3, 4), ("w", 3, 1)])],
    "Tanh": [({}, [(1, 9)])],
    "Transpose": [({"perm": [0, 2, 1]}, [(1, 3, 4)])],
}


def build(op: str, attrs: dict[str, Any], inputs: list[Any]) -> onnx.ModelProto:
    """Return a source graph of one node."""
    rng = np.random.default_rng(len(op))
    values, weights, names = [], [], []
    for place, one in enumerate(inputs):
        names.append(f"i{place}")
        if isinstance(one, tuple) and not isinstance(one[0], str):
            values.append(helper.make_tensor_value_info(names[-1], onnx.TensorProto.FLOAT, one))
            continue
        if isinstance(one, tuple):
            names[-1] = f"trained:{place}"
            array = rng.uniform(0.5, 1.5, one[1:]) if one[0] == "v" else rng.normal(size=one[1:])
            one = array.astype(np.float32)
        weights.append(numpy_helper.from_array(np.asarray(one), names[-1]))
    made = helper.make_tensor_value_info("o0", onnx.TensorProto.FLOAT, None)
    node = helper.make_node(op, names, ["o0"], **attrs)
    graph = helper.make_graph([node], "one", values, [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_answer_as_the_engine_and_have_their_gradients(op: str) -> None:
    """In a batch, each equals ONNX Runtime sample by sample; gradients equal differences."""
    for attrs, inputs in CASES[op]:
        model = build(op, attrs, inputs)
        rng = np.random.default_rng(5)
        shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input]
        arrays = [rng.standard_normal((3, *shape[1:])).astype(np.float32) for shape in shapes]
        session = ort.InferenceSession(model.SerializeToString())
        names = [value.name for value in model.graph.input]
        wanted = np.concatenate(
            [
                session.run(None, {k: a[n : n + 1] for k, a in zip(names, arrays, strict=True)})[0]
                for n in range(3)
            ]
        )
        module = TrainableChild(SourceGraph(model, Path()))
        found = module([torch.from_numpy(array) for array in arrays])
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-5, atol=1e-5)
        exact = module.double()
        exact._constants = {
            name: value.double() if value.is_floating_point() else value
            for name, value in exact._constants.items()
        }
        given = [torch.from_numpy(a).double().requires_grad_() for a in arrays]
        count = len(given)

        def call(*tensors: torch.Tensor, exact: TrainableChild = exact, count: int = count) -> Any:
            return exact(tensors[:count])

        # Differences change the tensors in place: the weights are the module's own.
        assert torch.autograd.gradcheck(call, (*given, *exact.weights))


def test_every_operator_has_a_case() -> None:
    """What can be trained has been compared with the engine."""
    assert set(CASES) == set(OPERATORS)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Adam, torch.optim.Adam), (Sgd, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9))],
)
def test_optimisers_step_as_those_of_pytorch(ours: Any, theirs: Callable[..., Any]) -> None:
    """Ten steps down the same hill end in the same place."""
    ends = []
    for make in (ours, theirs):
        weight = torch.nn.Parameter(torch.linspace(-2, 3, 7))
        optimiser = make([weight], 0.001)
        for _ in range(10):
            weight.grad = None
            (weight**4).sum().backward()
            optimiser.step()
        ends.append(weight.detach())
    assert torch.allclose(*ends, rtol=1e-5, atol=1e-6)


def test_an_unknown_operator_is_named() -> None:
    """The error says which operator cannot be trained, and what can."""
    with pytest.raises(BundleError, match=r"Operator Erf .* cannot be trained: known are Add"):
        TrainableChild(SourceGraph(build("Erf", {}, [(1, 4)]), Path()))
