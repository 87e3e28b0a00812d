"""Mutated files: the short form of ``benchmarks.fuzz_models``."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks.fuzz_models import MOST_BYTES, Reader, base_models, fuzz, mutate
from onnx import ModelProto, TensorProto, helper

from partita.errors import ModelError
from partita.graph import load_graph
from tests.models import make_model


def test_models_that_are_mutated_hold_in_themselves() -> None:
    """What is mutated can be read, and mutations leave some of it readable, most of it not."""
    models = base_models()
    for data in models:
        load_graph(data)
    rng = random.Random(0)
    assert len({mutate(rng, models) for _ in range(50)}) > 40


@pytest.mark.slow
def test_mutated_models_are_read_or_refused() -> None:
    """No bare exception, hang or crash, and memory within bounds."""
    outcomes = [outcome for _, outcome in fuzz(250, seed=7)]
    assert [outcome for outcome in outcomes if outcome.is_fault] == []
    assert {outcome.kind for outcome in outcomes} == {"read", "refused"}
    assert max(outcome.peak_bytes for outcome in outcomes) < MOST_BYTES


def test_a_process_that_ends_is_a_fault_of_the_model() -> None:
    """The reader says so, and reads on with another process."""
    reader = Reader()
    try:
        assert reader.read(base_models()[0]).kind == "read"
        reader._process.kill()
        reader._process.join()
        assert reader.read(base_models()[0]).kind == "crash"
        assert reader.read(b"no model").kind == "refused"
    finally:
        reader.close()


def typed(kind: int) -> ModelProto:
    """Return a model whose output is declared to be of some type."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"])
    model.graph.output[0].type.tensor_type.elem_type = kind
    return model


def windowed(kernel: list[int]) -> ModelProto:
    """Return a pool with a window of so many axes on a picture of two."""
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=kernel, auto_pad="SAME_UPPER")
    return make_model([pool], {"x": (1, 3, 8, 8)}, ["y"])


def scaled(factor: float) -> ModelProto:
    """Return a picture whose height is scaled."""
    node = helper.make_node("Resize", ["x", "", "s"], ["y"])
    scales = {"s": np.array([1, 1, factor, 1], np.float32)}
    return make_model([node], {"x": (1, 3, 8, 8)}, ["y"], scales)


@pytest.mark.parametrize(
    "model",
    [
        scaled(float("nan")),
        scaled(float("inf")),
        scaled(-1.0),
        typed(65536),
        windowed([2]),
        windowed([2, 2, 2]),
        make_model(
            [
                helper.make_node("QuickGelu", ["x"], ["t"], domain="com.microsoft"),
                helper.make_node("Relu", ["t"], ["y"]),
            ],
            {"x": (1, 2**31 - 1, 8, 8)},
            ["y"],
            dtype=TensorProto.FLOAT,
        ),
    ],
    ids=["scale nan", "scale inf", "scale below 0", "type", "few axes", "many axes", "size"],
)
def test_what_breaks_the_rules_is_refused_by_the_engines_reason(model: ModelProto) -> None:
    """Each of these was once an exception of Python's own."""
    with pytest.raises(ModelError):
        load_graph(model)


def test_names_of_several_lines_are_told_in_one() -> None:
    """A message stays one line whatever a file calls its tensors."""
    node = helper.make_node("Relu", ["x\n\x1b[31m"], ["y"])
    with pytest.raises(ModelError) as caught:
        load_graph(make_model([node], {"x\n\x1b[31m": ("n",)}, ["y"]))
    assert caught.value.message.isprintable()
