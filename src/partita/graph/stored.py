"""Tensors as a model stores them: in its own file, or as bytes of files beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from partita.errors import ModelError, first_line
from partita.graph.mutable_graph import Array
from partita.graph.node import subgraphs

#: Weights of at least this size lie apart from the graphs that are written, in files or under their
#: hashes. It is also the default of onnx's external data; not tuned.
EXTERNAL_BYTES = 1024
_MOST_PATH = 4096


class StoredTensors:
    """Reads a model's tensors, wherever they lie.

    Args:
        label: The model's name, for messages.
        path: The model's file, None for a model from memory. Other files are looked for in its
            folder, and if it is a link, then in the folder of what it leads to.
    """

    def __init__(self, label: str, path: Path | None) -> None:
        self._label = label
        self._folders = [] if path is None else [path.parent, Path(os.path.realpath(path)).parent]

    def read(self, tensor: onnx.TensorProto) -> Array:
        """The tensor's values.

        Raises:
            ModelError: It is damaged, or its file is missing, too short or outside of the folder.
        """
        location = _location(tensor) if uses_external_data(tensor) else ""
        try:
            if not location:
                return numpy_helper.to_array(tensor)
            return self._read_file(tensor, self._find(tensor, location), location)
        except ModelError:
            raise
        except Exception as error:  # onnx raises what NumPy, protobuf and the system do.
            where = f" in file '{location}'" if location else ""
            raise ModelError(
                f"Weight '{tensor.name}' of model '{self._label}' is damaged{where}:"
                f" {first_line(error)}.",
                subject=location or tensor.name,
            ) from None

    def take_in(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Put the bytes of files into the tensors that ``nodes`` and their bodies hold, in place.

        Raises:
            ModelError: As :meth:`read`.
        """
        for tensor in _held_tensors(nodes):
            if uses_external_data(tensor):
                array = self.read(tensor)
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def _find(self, tensor: onnx.TensorProto, location: str) -> Path:
        subject = f"Weight '{tensor.name}' of model '{self._label}' lies in file"
        if not self._folders:
            raise ModelError(
                f"{subject} '{location}': a model given as bytes must hold its weights. Give the"
                " path of the model.",
                subject=location,
            )
        inner = Path(location)
        if inner.is_absolute() or ".." in inner.parts or len(location) > _MOST_PATH:
            raise ModelError(
                f"{subject} '{location[:_MOST_PATH]}': allowed are files in the model's folder.",
                subject=location,
            )
        paths = [folder / inner for folder in self._folders]
        for path in paths:
            if path.is_file():
                return path
        raise ModelError(
            f"{subject} '{paths[0]}', which is missing or no regular file. Copy it beside the"
            " model.",
            subject=location,
        )

    def _read_file(self, tensor: onnx.TensorProto, path: Path, location: str) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        offset = int(entries.get("offset", 0))
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        count = prod(tensor.dims)
        # Types of less than a byte are packed: onnx knows how.
        bits = _PACKED_BITS.get(tensor.data_type, 8 * dtype.itemsize)
        needed_bytes = -(-count * bits // 8)
        length = int(entries.get("length", needed_bytes))
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no regular file")
            if tensor.data_type == onnx.TensorProto.STRING:
                raise ValueError("text cannot lie in a file")
            if count < 0 or offset < 0 or length != needed_bytes:
                raise ValueError(f"it names {length} bytes, its shape takes {needed_bytes}")
            if offset + length > status.st_size:
                raise ValueError(
                    f"it ends at byte {offset + length}, the file has {status.st_size} bytes"
                )
            file.seek(offset)
            if tensor.data_type not in _PACKED_BITS:
                array = np.fromfile(file, dtype.newbyteorder("<"), count)
                return array.astype(dtype, copy=False).reshape(tuple(tensor.dims))
            packed = onnx.TensorProto(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
            packed.raw_data = file.read(length)
            return numpy_helper.to_array(packed)


#: Bits of the types of which several share a byte.
_PACKED_BITS = {
    getattr(onnx.TensorProto, name): bits
    for name, bits in (("UINT4", 4), ("INT4", 4), ("FLOAT4E2M1", 4), ("UINT2", 2), ("INT2", 2))
    if hasattr(onnx.TensorProto, name)
}


def refer_to(name: str, array: Array, location: str) -> onnx.TensorProto:
    """A tensor of ``array``'s type and shape whose bytes lie in file ``location``."""
    tensor = onnx.TensorProto(
        name=name,
        dims=array.shape,
        data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for entry, value in (("location", location), ("length", str(array.nbytes))):
        tensor.external_data.add(key=entry, value=value)
    return tensor


def _location(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _held_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """The tensors in attributes of ``nodes``, and of all nodes in their bodies."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for graph in subgraphs(node):
            yield from graph.initializer
            yield from _held_tensors(graph.node)
