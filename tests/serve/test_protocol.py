"""Bodies of requests and answers, without a server."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.utils import np_to_triton_dtype

from partita.errors import InputError
from partita.program import TensorSpec
from partita.program.steps import DTYPE_BYTES
from partita.serve.protocol import most_bytes, read_request, write_answer

PAIR = (TensorSpec("x", (2, 3), "float32"), TensorSpec("n", (2,), "int8"))
OUTPUTS = (TensorSpec("y", (2,), "float32"), TensorSpec("z", (1,), "bool"))
MODEL = {"model_name": "m", "model_version": "1"}


def request_of(**changes: Any) -> dict[str, Any]:
    """A good request to a model that takes ``PAIR``, with changes."""
    x = {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}
    n = {"name": "n", "datatype": "INT8", "shape": [2], "data": [7, -8]}
    return {"inputs": [x | changes.pop("x", {}), n | changes.pop("n", {})], **changes}


def read(request: dict[str, Any], *blocks: bytes) -> Any:
    """What is read of a request with binary tensors behind it."""
    head = json.dumps(request).encode()
    length = str(len(head)) if blocks else ""
    return read_request(PAIR, OUTPUTS, head + b"".join(blocks), length)


def test_types_have_the_names_that_clients_use() -> None:
    """Each type that a tensor may have is called as NVIDIA's client calls it."""
    for dtype in DTYPE_BYTES:
        assert TensorSpec("x", (), dtype).datatype == np_to_triton_dtype(np.dtype(dtype))


def draw_array(draw: Any, dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    """Any bits that a type can have; truth values as they are."""
    kind = np.dtype(dtype)
    raw = draw(
        st.binary(min_size=prod(shape) * kind.itemsize, max_size=prod(shape) * kind.itemsize)
    )
    array = np.frombuffer(raw, kind if dtype != "bool" else np.uint8).reshape(shape)
    return array % 2 == 1 if dtype == "bool" else array


@given(st.data())
def test_arrays_come_as_they_were_sent(data: st.DataObject) -> None:
    """All types and shapes, in numbers or binary, one after another; bit for bit when binary."""
    specs, described, blocks, arrays = [], [], [], []
    for number in range(data.draw(st.integers(1, 3))):
        dtype = data.draw(st.sampled_from(sorted(DTYPE_BYTES)))
        shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
        array = draw_array(data.draw, dtype, shape)
        spec = TensorSpec(f"x{number}", tuple(shape), dtype)
        tensor = {"name": spec.name, "datatype": spec.datatype, "shape": shape}
        is_binary = data.draw(st.booleans())
        if is_binary:
            blocks.append(array.tobytes())
            tensor["parameters"] = {"binary_data_size": len(blocks[-1])}
        else:
            if "float" in dtype:
                array = np.nan_to_num(array, posinf=1.0, neginf=-1.0)
            is_nested = data.draw(st.booleans()) and 0 not in shape and shape
            tensor["data"] = array.tolist() if is_nested else array.ravel().tolist()
        specs.append(spec)
        described.append(tensor)
        arrays.append(array)
    head = json.dumps({"inputs": described}).encode()
    body = head + b"".join(blocks)
    assert len(body) <= most_bytes(specs)
    asked = read_request(specs, (), body, str(len(head)) if blocks else "")
    for spec, array in zip(specs, arrays, strict=True):
        got = asked.feeds[spec.name]
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes()


def test_an_answer_in_numbers_and_one_in_bytes() -> None:
    """Outputs come in the order that was asked for; those of JSON are flat, NaN is null."""
    outputs = [{"name": "z"}, {"name": "y", "parameters": {"binary_data": True}}]
    asked = read(request_of(id="seven", outputs=outputs))
    answer = {"y": np.array([1.5, np.nan], np.float32), "z": np.array([True])}
    body, end = write_answer(MODEL, asked, answer)
    assert json.loads(body[:end]) == {
        "model_name": "m",
        "model_version": "1",
        "id": "seven",
        "outputs": [
            {"name": "z", "datatype": "BOOL", "shape": [1], "data": [True]},
            {"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
        ],
    }
    assert body[end:] == answer["y"].tobytes()
    body, end = write_answer(MODEL, read(request_of()), answer)
    assert end is None
    assert [tensor["data"] for tensor in json.loads(body)["outputs"]] == [[1.5, None], [True]]


def test_all_outputs_are_binary_where_that_is_the_rule() -> None:
    """The request's own parameter counts for all outputs that say nothing else."""
    rule = {"binary_data_output": True}
    assert [b for _, b in read(request_of(parameters=rule)).outputs] == [True, True]
    apart = [{"name": "y"}, {"name": "z", "parameters": {"binary_data": False}}]
    assert [b for _, b in read(request_of(parameters=rule, outputs=apart)).outputs] == [True, False]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x": {"name": "other"}}, "'other', 'n' do not fit the model: it takes 'x', 'n'"),
        ({"x": {"name": "n"}}, "'n', 'n' do not fit the model"),
        ({"inputs": []}, "Inputs none do not fit"),
        ({"inputs": 3}, "at `$.inputs`"),
        ({"x": {"datatype": "FP64"}}, "'x' is FP64[2, 3], the model takes FP32[2, 3]"),
        ({"x": {"shape": [3, 2]}}, "'x' is FP32[3, 2], the model takes FP32[2, 3]"),
        ({"x": {"shape": [-2, -3]}}, "'x' is FP32[-2, -3]"),
        ({"x": {"data": [1, 2, 3]}}, "'x' has 'data' that do not fit FP32[2, 3]"),
        ({"x": {"data": [[1, 2], [3, 4], [5, 6]]}}, "its lists are of shape [3, 2]"),
        ({"x": {"data": [[1, 2], [3]]}}, "'x' has 'data' that do not fit"),
        ({"x": {"data": [[[1, 2, 3]]]}}, "'data' of depth 1 or 2"),
        ({"x": {"data": "abc"}}, "'data' of depth 1 or 2"),
        ({"x": {"data": [1, 2, 3, 4, 5, "6"]}}, "got `str` - at `$[5]`"),
        ({"x": {"data": [1, 2, 3, 4, 5, True]}}, "got `bool` - at `$[5]`"),
        ({"x": {"data": [1, 2, 3, 4, 5, 1e39]}}, "overflow"),
        ({"n": {"data": [1, 128]}}, "at `$[1]`"),
        ({"n": {"data": [1, 1.5]}}, "at `$[1]`"),
        ({"n": {"data": [1, None]}}, "at `$[1]`"),
        ({"x": {"parameters": {"binary_data_size": 24}}}, "with 0 bytes left in the body"),
        ({"x": {"parameters": {"binary_data_size": True}}}, "has binary_data_size True"),
        ({"x": {"parameters": {"shared_memory_region": "a"}}}, "that extension is not there"),
        (
            {"outputs": [{"name": "w"}]},
            "Output 'w' is not there, or is asked for twice; allowed: y",
        ),
        ({"outputs": [{"name": "y"}, {"name": "y"}]}, "asked for twice"),
        ({"outputs": [{"name": "y", "parameters": {"classification": 3}}]}, "'classification'"),
        ({"id": 7}, "Expected `str`, got `int` - at `$.id`"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_allowed(
    changes: dict[str, Any], told: str
) -> None:
    """One line that names the tensor or the field."""
    with pytest.raises(InputError) as caught:
        read(request_of(**changes))
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_a_limit_of_64_bits_is_kept() -> None:
    """The smallest and largest numbers are taken; one more is not."""
    for dtype in ("int64", "uint64"):
        info, spec = np.iinfo(dtype), TensorSpec("x", (2,), dtype)
        for numbers, fits in (([info.min, info.max], True), ([info.min - 1, info.max + 1], False)):
            tensor = {"name": "x", "datatype": dtype.upper(), "shape": [2], "data": numbers}
            body = json.dumps({"inputs": [tensor]}).encode()
            if fits:
                assert read_request((spec,), (), body, "").feeds["x"].tolist() == numbers
            else:
                with pytest.raises(InputError, match="'data' that do not fit"):
                    read_request((spec,), (), body, "")


@pytest.mark.parametrize(
    ("length", "rest", "told"),
    [
        ("-1", b"", "is '-1', allowed: 0 to"),
        ("9999999", b"", "allowed: 0 to"),
        ("1e3", b"", "is '1e3'"),
        ("3", b"", "is no whole JSON: Input data was truncated"),
        (None, b"more", "has 4 bytes behind the last tensor"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(length: str | None, rest: bytes, told: str) -> None:
    """Of the JSON object, and of what follows it."""
    head = json.dumps(request_of()).encode()
    with pytest.raises(InputError) as caught:
        read_request(PAIR, OUTPUTS, head + rest, str(len(head)) if length is None else length)
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "is no whole JSON: Input data was truncated"),
        (b"{", "is no whole JSON: Input data was truncated"),
        (b"[", "is no whole JSON: Input data was truncated"),
        (b'{"inputs": 3', "is no whole JSON: Input data was truncated"),
        (b"[" * 100_000, "is no whole JSON: maximum recursion depth"),
        (b"\xff", "is no whole JSON: JSON is malformed"),
        (b'{"inputs": NaN}', "is no whole JSON: JSON is malformed"),
        (b"null", "is no inference request: Expected `object`"),
        (b"[]", "is no inference request: Expected `object`"),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, told: str) -> None:
    """In one line: what is damaged on its way is no request of a wrong kind."""
    with pytest.raises(InputError, match=told):
        read_request(PAIR, OUTPUTS, body, "")
