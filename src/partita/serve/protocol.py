"""Requests and answers of the Open Inference Protocol v2: bytes to arrays and back.

Tensors stand in the JSON object as lists of numbers, or, by the binary tensor data extension,
behind it: little-endian, row by row, in the order of their descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np

from partita.errors import InputError
from partita.program import TensorSpec
from partita.regions import Array
from partita.serve.tensors import (
    Asked,
    Tensor,
    Wanted,
    describe_tensors,
    find_outputs,
    match_inputs,
    read_binary,
    write_binary,
)

#: Says how long the JSON object in front of binary tensors is.
HEAD_LENGTH = "inference-header-content-length"
#: The longest number is that of a double: 24 characters, a comma, and spaces for legibility.
_NUMBER_BYTES = 32
#: Names, shapes and parameters of a request. Not tuned.
_HEAD_BYTES = 65_536
_BRACKETS = re.compile(rb"[\[\s]*")


class _Tensor(Tensor):
    data: msgspec.Raw = msgspec.Raw()


class _Request(msgspec.Struct):
    inputs: list[_Tensor]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[Wanted] = []


def most_bytes(inputs: Sequence[TensorSpec]) -> int:
    """The bytes that no request to a model with these inputs exceeds, however it is written."""
    return _HEAD_BYTES + _NUMBER_BYTES * sum(prod(spec.shape) for spec in inputs)


def read_request(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], body: bytes, head_length: str
) -> Asked:
    """What a request's body asks for.

    Args:
        inputs: What the model takes.
        outputs: What it gives.
        head_length: The header field ``HEAD_LENGTH``; empty where the whole body is JSON.

    Raises:
        InputError: Says what is wrong, and what is allowed.
    """
    end = _read_length(head_length, len(body)) if head_length else len(body)
    request = _decode(memoryview(body)[:end])
    wanted = find_outputs(request.parameters, request.outputs, outputs)
    feeds, start = {}, end
    for tensor, spec in match_inputs(request.inputs, inputs):
        if (size := tensor.parameters.get("binary_data_size")) is None:
            feeds[spec.name] = _read_numbers(tensor, spec)
            continue
        _check_size(size, spec, len(body) - start)
        feeds[spec.name] = read_binary(body, start, spec)
        start += spec.size_bytes
    if start != len(body):
        raise InputError(f"The body has {len(body) - start} bytes behind the last tensor.")
    return Asked(request.id, feeds, wanted)


def write_answer(
    model: Mapping[str, Any], asked: Asked, answer: Mapping[str, Array]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the bytes of the JSON object where binary tensors follow it.

    NaN and infinity, which JSON has not, are null there.

    Args:
        model: What says which model answers.
        answer: An array per output of the model.
    """
    described, blocks = [], []
    for spec, is_binary in asked.outputs:
        array = answer[spec.name]
        tensor: dict[str, Any] = describe_tensors([spec])[0] | {"shape": list(array.shape)}
        if is_binary:
            blocks.append(write_binary(array))
            tensor["parameters"] = {"binary_data_size": len(blocks[-1])}
        else:
            tensor["data"] = array.ravel().tolist()
        described.append(tensor)
    named = {"id": asked.id} if asked.id else {}
    head = msgspec.json.encode({**model, **named, "outputs": described})
    return b"".join([head, *blocks]), len(head) if blocks else None


def _read_length(text: str, most: int) -> int:
    if not re.fullmatch("[0-9]{1,12}", text) or int(text) > most:
        raise InputError(
            f"Header field {HEAD_LENGTH} is '{text[:40]}', allowed: 0 to {most}, the bytes of the"
            " body."
        )
    return int(text)


def _decode(head: memoryview) -> _Request:
    try:
        return _REQUESTS.decode(head)
    except _UNREADABLE as error:
        fault = _find_damage(head) or f"is no inference request: {error}"
        raise InputError(f"The request {fault}.") from None


def _find_damage(head: memoryview) -> str:
    """What is wrong with a body as JSON, which is looked at after the types; empty for nothing."""
    try:
        _ANYTHING.decode(head)
    except _UNREADABLE as error:
        return f"is no whole JSON: {error}"
    return ""


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_REQUESTS, _ANYTHING = msgspec.json.Decoder(_Request), msgspec.json.Decoder(msgspec.Raw)


def _check_size(size: object, spec: TensorSpec, left: int) -> None:
    if size != spec.size_bytes or isinstance(size, bool) or spec.size_bytes > left:
        raise InputError(
            f"Input '{spec.name}' has binary_data_size {size!r}, with {left} bytes left in the"
            f" body; {spec.datatype}{list(spec.shape)} takes {spec.size_bytes}.",
            subject=spec.name,
        )


def _read_numbers(tensor: _Tensor, spec: TensorSpec) -> Array:
    """The array in a JSON list: flat, or nested as the shape is."""
    text = bytes(tensor.data)
    depth = _BRACKETS.match(text).group().count(b"[")  # type: ignore[union-attr]
    if depth not in (1, len(spec.shape)):
        raise InputError(
            f"Input '{spec.name}' has neither 'data' of depth 1 or {len(spec.shape)} nor"
            " 'binary_data_size'.",
            subject=spec.name,
        )
    try:
        values = _list_decoder(spec.dtype, depth).decode(text)
        with np.errstate(over="raise"):
            wide = np.array(values, np.float64 if "float" in spec.dtype else spec.dtype)
            array = wide.astype(spec.dtype)
        if depth > 1 and array.shape != spec.shape:
            raise ValueError(f"its lists are of shape {list(array.shape)}")
        return array.reshape(spec.shape)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        raise InputError(
            f"Input '{spec.name}' has 'data' that do not fit {spec.datatype}"
            f"{list(spec.shape)}: {error}.",
            subject=spec.name,
        ) from None


@lru_cache(maxsize=64)
def _list_decoder(dtype: str, depth: int) -> msgspec.json.Decoder[Any]:
    """Reads lists of so many levels of numbers that a type can hold."""
    kind = np.dtype(dtype)
    element: Any = bool if kind.kind == "b" else float
    if np.issubdtype(kind, np.integer):
        info = np.iinfo(kind)
        # Ends of 64 bits are left to NumPy: limits of this decoder are smaller.
        element = int
        if kind.itemsize < 8:
            element = Annotated[int, msgspec.Meta(ge=int(info.min), le=int(info.max))]
    for _ in range(depth):
        element = list[element]
    return msgspec.json.Decoder(element)
