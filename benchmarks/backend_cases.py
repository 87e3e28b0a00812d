"""The backend tests of the ``onnx`` package as models with inputs, and what is true of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from partita.graph.mutable_graph import value_info
from partita.graph.read import KNOWN_DOMAINS

Arrays = Mapping[str, Any]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
CHANCE = ("Random", "Bernoulli", "Multinomial", "Dropout")


@dataclass(frozen=True)
class Case:
    """A model of the suite with its first set of inputs.

    Attributes:
        feeds: By name; lists for sequences, None for absent optional ones.
        is_float: Whether all its inputs are tensors of floating-point numbers.
    """

    name: str
    model: onnx.ModelProto
    feeds: Arrays
    is_float: bool


def load_cases(only: str = "", folders: Sequence[Path] = ()) -> Iterator[Case]:
    """Yield the cases whose name contains ``only``, no model twice.

    Args:
        only: Part of a name.
        folders: Data of other versions of the package, besides what is installed.
    """
    seen: set[bytes] = set()
    for test in (*list_tests(), *chain.from_iterable(map(list_stored, folders))):
        if only in test.name and test.url is None:
            case = read_case(test)
            data = case.model.SerializeToString(deterministic=True)
            if data not in seen:
                seen.add(data)
                yield case


def list_tests() -> Iterator[TestCase]:
    """Yield the tests of the installed package."""
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the collectors: overflows that are meant
            tests = load_model_tests(kind=kind)
        yield from sorted(tests, key=lambda test: test.name)


def list_stored(folder: Path) -> Iterator[TestCase]:
    """Yield the tests that lie as files below ``folder``."""
    for path in sorted(folder.glob("*/*/model.onnx")):
        home = path.parent
        yield TestCase(home.name, "", None, str(home), None, None, home.parent.name, 0.0, 0.0)


def read_case(test: TestCase) -> Case:
    """The case of a test."""
    if test.model is not None:
        model, given = test.model, [*(test.data_sets or [([], [])])[0][0]]
    else:
        folder = Path(test.model_dir or "")
        model = onnx.load(folder / "model.onnx")
        given = read_inputs(folder / "test_data_set_0", model)
    names = fed_inputs(model)
    kinds = {v.type.tensor_type.elem_type for v in model.graph.input if v.name in names}
    feeds = dict(zip(names, map(as_arrays, given), strict=False))
    return Case(test.name, model, feeds, bool(kinds) and kinds.issubset(FLOATS))


def fed_inputs(model: onnx.ModelProto) -> list[str]:
    """The inputs that a request feeds: old files list their weights, too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in weights]


def read_inputs(folder: Path, model: onnx.ModelProto) -> list[Any]:
    """The stored inputs; None for what is no tensor."""
    kinds = [value.type.WhichOneof("value") for value in model.graph.input]
    files = [folder / f"input_{number}.pb" for number in range(len(kinds))]
    return [
        TensorProto.FromString(file.read_bytes()) if kind == "tensor_type" else None
        for kind, file in zip(kinds, files, strict=True)
        if file.exists()
    ]


def as_arrays(given: Any) -> Any:
    if isinstance(given, list):
        return [as_arrays(item) for item in given]
    if isinstance(given, TensorProto):
        return numpy_helper.to_array(given)
    return given if given is None else np.asarray(given)


def free_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """The shape of each input that the model leaves open."""
    shapes = {}
    for value in case.model.graph.input:
        tensor = value.type.tensor_type
        fed = case.feeds.get(value.name)
        if isinstance(fed, np.ndarray) and (value_info(value).shape is None or is_free(tensor)):
            shapes[value.name] = fed.shape
    return shapes


def is_free(tensor: TypeProto.Tensor) -> bool:
    return any(not extent.HasField("dim_value") for extent in tensor.shape.dim)


def is_true_line(case: Case, whole: Arrays, line: str) -> bool:
    """Whether a refusal is one line of which is known that it is true of this model."""
    if "\n" in line:
        return False
    matches = ((re.search(pattern, line), holds) for pattern, holds in TRUTHS)
    return any(match is not None and holds(case, whole, match) for match, holds in matches)


Holds = Callable[[Case, Arrays, re.Match[str]], bool]


def _values(case: Case) -> Iterator[onnx.ValueInfoProto]:
    with suppress(Exception):
        model = onnx.shape_inference.infer_shapes(case.model)
        yield from model.graph.value_info
    yield from (*case.model.graph.input, *case.model.graph.output)


def _nodes(case: Case) -> list[onnx.NodeProto]:
    model = case.model
    return [*model.graph.node, *(node for f in model.functions for node in f.node)]


def _is_no_tensor(case: Case, whole: Arrays, match: re.Match[str]) -> bool:
    named = (value for value in _values(case) if value.name == match[1])
    return any(value.type.WhichOneof("value") != "tensor_type" for value in named)


def _has_type(case: Case, whole: Arrays, match: re.Match[str]) -> bool:
    kinds = {v.type.tensor_type.elem_type for v in _values(case) if v.name == match[1]}
    return {TensorProto.DataType.Name(kind).lower() for kind in kinds} == {match[2]}


def _is_moving(case: Case, whole: Arrays, match: re.Match[str]) -> bool:
    """Whether nothing says beforehand what shape an output has."""
    declared = next(value for value in case.model.graph.output if value.name == match[1])
    shape = value_info(declared).shape
    return shape is None or min(shape, default=1) < 1  # 0 may stand for a free dimension


#: What refusals say, and when that is true.
TRUTHS: tuple[tuple[str, Holds], ...] = (
    ("takes no inputs", lambda case, _, match: not fed_inputs(case.model)),
    ("put '(.*)' is not a tensor", _is_no_tensor),
    ("Tensor '(.*)' is of type (.*), allowed", _has_type),
    (
        "domain '(.*)' ",
        lambda case, _, match: (
            match[1] not in KNOWN_DOMAINS and match[1] in {node.domain for node in _nodes(case)}
        ),
    ),
    (
        "has opset ([0-6]):",
        lambda case, _, match: any(o.version == int(match[1]) for o in case.model.opset_import),
    ),
    (
        "draws random numbers",
        lambda case, _, match: any(node.op_type.startswith(CHANCE) for node in _nodes(case)),
    ),
    ("Input '(.*)' has shape .*: empty", lambda case, _, match: case.feeds[match[1]].size == 0),
    ("Input '(.*)' cannot have", lambda case, _, match: case.feeds[match[1]].size == 0),
    ("Output '(.*)' of model .* is empty", lambda _, whole, match: whole[match[1]].size == 0),
    ("Output '(.*)' of model .* depends on the data", _is_moving),
)
