"""The bytes of a model as an ONNX message, or one line that says why they are none."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from partita.errors import ModelError
from partita.graph.mutable_graph import name_apart, name_bodies_apart, share_names

Source = str | Path | bytes | onnx.ModelProto

#: Protocol buffers hold no more.
_MOST_BYTES = 2**31 - 1


def read_model(source: Source) -> onnx.ModelProto:
    """The model that a file, bytes or a model in memory hold; the latter is handed back.

    Raises:
        ModelError: It cannot be read, is not complete, or holds text that is none.
    """
    if isinstance(source, onnx.ModelProto):
        refuse_text(source, source.graph.name)
        return source
    where = "bytes" if isinstance(source, bytes) else str(source)
    try:
        data = source if isinstance(source, bytes) else _read_file(Path(source))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"Model file '{where}' cannot be read: {reason}.", subject=where) from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # What protobuf raises depends on its version.
        model.Clear()
    if max((o.version for o in model.opset_import), default=0) < 1:
        why = f"is not a complete ONNX model: {len(data)} bytes without a readable graph"
        raise ModelError(f"'{where}' {why}. Export or copy it again.", subject=where)
    refuse_text(model, where)
    return model


def read_apart(path: Path) -> bytes | None:
    """A file's model in which no two nodes share a name; None where none do in the file.

    Answers do not depend on names of nodes, but engines refuse models that repeat them.

    Raises:
        ModelError: It cannot be read.
    """
    model = read_model(path)
    is_shared = share_names(model.graph.node)
    if is_shared:
        name_apart(model.graph)
    if not name_bodies_apart(model.graph.node) and not is_shared:
        return None
    data: bytes = model.SerializeToString()
    return data


def _read_file(path: Path) -> bytes:
    """A file's bytes.

    Raises:
        ModelError: It is no regular file, or larger than an ONNX file can be.
        OSError: It cannot be read.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"Model file '{path}' is no regular file.", subject=str(path))
    if status.st_size > _MOST_BYTES:
        raise ModelError(
            f"Model file '{path}' has {status.st_size} bytes, at most {_MOST_BYTES} fit in one ONNX"
            " file. Keep the weights as external data.",
            subject=str(path),
        )
    return path.read_bytes()


def refuse_text(model: onnx.ModelProto, label: str) -> None:
    """Raise for names that are not text: protocol buffers let every byte pass.

    Raises:
        ModelError: Names the kind of message and its field.
    """
    fault = _text_fault(model)
    if fault:
        raise ModelError(f"Model '{label}' has {fault}. Export it again.", subject=label)


def _text_fault(message: Any) -> str:
    """What is wrong with the texts of a message and of those in it; empty if nothing."""
    for name, is_message, is_repeated in _fields(message.DESCRIPTOR):
        if is_repeated:
            values = getattr(message, name)
        elif message.HasField(name):
            values = (getattr(message, name),)
        else:
            continue
        for value in values:
            if is_message:
                fault = _text_fault(value)
                if fault:
                    return fault
            elif not isinstance(value, str):  # protobuf gives the bytes of what is no text
                kind = message.DESCRIPTOR.name.removesuffix("Proto").lower()
                return f"a {kind} whose {name} is no UTF-8 text: {bytes(value)!r:.40}"
    return ""


@cache
def _fields(descriptor: Any) -> tuple[tuple[str, bool, bool], ...]:
    """Name, whether of messages, and whether repeated, of the fields that hold text somewhere."""
    return tuple(
        (field.name, field.type == field.TYPE_MESSAGE, field.is_repeated)
        for field in descriptor.fields
        if field.type in (field.TYPE_STRING, field.TYPE_MESSAGE)
    )
