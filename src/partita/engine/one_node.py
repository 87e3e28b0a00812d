"""ONNX models of one operator, written without the onnx package."""

from __future__ import annotations

from collections.abc import Sequence

_FLOAT = 1


def one_node_model(
    kind: str, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], attributes: bytes = b""
) -> bytes:
    """An ONNX model of one operator over float tensors, written without the onnx package.

    Args:
        kind: The operator, of the default domain.
        inputs: Shapes of the inputs ``i0``, ``i1``, ...
        output: Shape of the output ``o0``.
        attributes: Of the node, encoded.
    """
    names = [b"i%d" % place for place in range(len(inputs))]
    node = b"".join(encode_part(1, name) for name in names) + encode_part(2, b"o0")
    node += encode_part(4, kind.encode()) + attributes
    graph = encode_part(1, node) + encode_part(2, b"one")
    graph += b"".join(
        encode_part(11, _value(name, shape)) for name, shape in zip(names, inputs, strict=True)
    )
    graph += encode_part(12, _value(b"o0", output))
    return encode_number(1, 8) + encode_part(7, graph) + encode_part(8, encode_number(2, 17))


def _value(name: bytes, shape: tuple[int, ...]) -> bytes:
    dims = b"".join(encode_part(1, encode_number(1, extent)) for extent in shape)
    tensor = encode_number(1, _FLOAT) + encode_part(2, dims)
    return encode_part(1, name) + encode_part(2, encode_part(1, tensor))


def encode_part(field: int, payload: bytes) -> bytes:
    """A field of bytes in the protobuf encoding."""
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def encode_number(field: int, value: int) -> bytes:
    """A field with a number."""
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
