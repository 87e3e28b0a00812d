"""Packed blobs: what is packed is what is loaded, and what is none is refused by name."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from partita.engine import OrtEngine
from partita.engine.packed import (
    PackedHead,
    collect_blobs,
    name_packed,
    pack_blob,
    unpack_blob,
    unpacked_bytes,
)
from partita.errors import RunError
from partita.regions import Packing


def draw_packing(bits: int, axis: int | None, extent: int, signed: bool, seed: int) -> Packing:
    """Return a packing with scales and zeros from a seed."""
    rng, shape = np.random.default_rng(seed), () if axis is None else (extent,)
    scale = np.asarray(rng.uniform(1e-3, 10, shape), np.float32)
    zero = np.zeros(shape, np.int32) if signed else rng.integers(0, 2**bits, shape)
    return Packing(bits, axis, scale, np.asarray(zero, np.int32), signed)


def pack(codes: np.ndarray, packing: Packing) -> np.ndarray:
    """Return the blob of a tensor's codes."""
    head = PackedHead(packing.bits, packing.limits[0], codes.shape, packing.axis)
    return pack_blob(codes, head, packing.scale, packing.zero)


@settings(max_examples=60)
@given(
    bits=st.sampled_from((2, 3, 4, 6, 8)),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    per_axis=st.booleans(),
    signed=st.booleans(),
    seed=st.integers(0, 999),
)
def test_a_blob_unpacks_to_its_codes_and_to_their_values(
    bits: int, shape: list[int], per_axis: bool, signed: bool, seed: int
) -> None:
    """Bit for bit what the codes stand for, at about as many bits as they have."""
    axis = seed % len(shape) if per_axis else None
    packing = draw_packing(bits, axis, shape[axis or 0], signed, seed)
    low, high = packing.limits
    codes = np.random.default_rng(seed).integers(low, high + 1, shape).astype(packing.dtype)
    blob = pack(codes, packing)
    assert blob.nbytes <= 40 + 8 * packing.scale.size + -(-codes.size * bits // 8)
    values = unpack_blob(blob, "float32").view(np.float32).reshape(shape)
    np.testing.assert_array_equal(values, packing.values(codes))
    same = unpack_blob(blob.tobytes(), packing.dtype).view(packing.dtype).reshape(shape)
    np.testing.assert_array_equal(same, codes)
    assert unpacked_bytes(blob, "float32") == values.nbytes


def test_a_blob_that_is_none_is_refused() -> None:
    """Other bytes, and packed ones that are cut short, are never read past their end."""
    packing = draw_packing(4, 0, 3, True, 0)
    blob = pack(np.zeros((3, 7), np.int8), packing).tobytes()
    for damaged in (b"", b"raw weights", blob[:9], blob[:12], blob[:-1], blob + b"\0"):
        with pytest.raises(ValueError, match="packed"):
            unpack_blob(damaged, "float32")


def test_a_fragment_reads_packed_weights() -> None:
    """The engine unpacks them when it loads, as the type that the graph names."""
    packing = draw_packing(3, 1, 5, True, 1)
    codes = np.random.default_rng(0).integers(-3, 4, (4, 5)).astype(np.int8)
    blob = pack(codes, packing)
    name = hashlib.sha256(blob.tobytes()).hexdigest()
    graph = product_graph(name_packed(name, "float32"))
    for prepack in (True, False):
        runner = OrtEngine().load(graph, {name: blob}, prepack=prepack)
        (answer,) = runner.run([np.eye(4, dtype=np.float32)])
        np.testing.assert_array_equal(answer, packing.values(codes))
    with pytest.raises(
        RunError, match=rf"weights at {name}\.float32: blob of 80 bytes is not pack"
    ):
        OrtEngine().load(graph, {name: np.zeros(80, np.uint8)})
    with pytest.raises(RunError, match=r"refused: weights in '.*\.float16'"):
        OrtEngine().load(product_graph(f"{name}.float16"), {name: blob})


def product_graph(location: str) -> bytes:
    """Return a graph that multiplies its input by weights of 4 x 5 at ``location``."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 5])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "80")):
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["i0", "w"], ["o0"])],
        "product",
        [helper.make_tensor_value_info("i0", TensorProto.FLOAT, (4, 4))],
        [helper.make_tensor_value_info("o0", TensorProto.FLOAT, (4, 5))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_raw_blobs_stay_as_they_are() -> None:
    """Beside packed ones, without a copy."""
    raw = np.arange(4, dtype=np.uint8)
    assert collect_blobs(["a"], {"a": raw})["a"] is raw
