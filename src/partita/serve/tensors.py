"""Tensors of requests and answers, however they are written, and what a model takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import msgspec
import numpy as np

from partita.errors import InputError
from partita.program import TensorSpec
from partita.regions import Array

#: Parameters that would change what is meant, of extensions that are not there.
_REFUSED = ("classification", "shared_memory_region")


class Tensor(msgspec.Struct):
    """An input as a request describes it."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] = {}


class Wanted(msgspec.Struct):
    """An output that a request asks for."""

    name: str
    parameters: dict[str, Any] = {}


@dataclass(frozen=True)
class Asked:
    """A request, read.

    Attributes:
        id: The client's own name for it.
        feeds: An array per model input.
        outputs: The outputs that are wanted, in order, and whether it asks for each to be binary.
    """

    id: str
    feeds: dict[str, Array]
    outputs: tuple[tuple[TensorSpec, bool], ...]


_Described = TypeVar("_Described", bound=Tensor)


def describe_tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    """Tensors as a model's metadata has them."""
    return [{"name": s.name, "datatype": s.datatype, "shape": list(s.shape)} for s in specs]


def match_inputs(
    tensors: Sequence[_Described], inputs: Sequence[TensorSpec]
) -> list[tuple[_Described, TensorSpec]]:
    """Each tensor with the input that it is for, in the request's order.

    Raises:
        InputError: They are not the model's inputs, each once, of its shapes and types.
    """
    names = [tensor.name for tensor in tensors]
    if sorted(names) != sorted(spec.name for spec in inputs):
        raise InputError(
            f"Inputs {', '.join(map(repr, names)) or 'none'} do not fit the model: it takes"
            f" {', '.join(repr(spec.name) for spec in inputs)}, each once."
        )
    specs = {spec.name: spec for spec in inputs}
    for tensor in tensors:
        _check_tensor(tensor, specs[tensor.name])
    return [(tensor, specs[tensor.name]) for tensor in tensors]


def find_outputs(
    parameters: Mapping[str, Any], wanted: Sequence[Wanted], outputs: Sequence[TensorSpec]
) -> tuple[tuple[TensorSpec, bool], ...]:
    """The outputs that a request names, or all; and whether it asks for each to be binary.

    Raises:
        InputError: One is not there, or asked for twice; or a parameter means what is not done.
    """
    for given in (parameters, *(output.parameters for output in wanted)):
        for name in _REFUSED:
            if name in given:
                raise InputError(f"Parameter '{name}' belongs to an extension that is not there.")
    is_binary = parameters.get("binary_data_output") is True
    if not wanted:
        return tuple((spec, is_binary) for spec in outputs)
    specs = {spec.name: spec for spec in outputs}
    found: dict[str, tuple[TensorSpec, bool]] = {}
    for output in wanted:
        spec = specs.get(output.name)
        if spec is None or output.name in found:
            raise InputError(
                f"Output '{output.name}' is not there, or is asked for twice; allowed:"
                f" {', '.join(specs)}, each once."
            )
        chosen = output.parameters.get("binary_data", is_binary)
        found[output.name] = (spec, chosen is True)
    return tuple(found.values())


def _check_tensor(tensor: Tensor, spec: TensorSpec) -> None:
    if tensor.datatype != spec.datatype or tuple(tensor.shape) != spec.shape:
        raise InputError(
            f"Input '{spec.name}' is {tensor.datatype}{tensor.shape}, the model takes"
            f" {spec.datatype}{list(spec.shape)}.",
            subject=spec.name,
        )
    if "shared_memory_region" in tensor.parameters:
        raise InputError(
            f"Input '{spec.name}' lies in shared memory: that extension is not there.",
            subject=spec.name,
        )


def read_binary(data: bytes | bytearray, start: int, spec: TensorSpec) -> Array:
    """The array that lies in ``data`` from ``start`` on; nothing is copied but truth values."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "b":
        truths: Array = np.frombuffer(data, np.uint8, prod(spec.shape), start) != 0
        return truths.reshape(spec.shape)
    array = np.frombuffer(data, dtype.newbyteorder("<"), prod(spec.shape), start)
    return array.reshape(spec.shape)


def write_binary(array: Array) -> bytes:
    """An array as bytes: little-endian, row by row."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
