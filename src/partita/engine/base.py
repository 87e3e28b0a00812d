"""The seam to whatever computes a fragment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from partita.program import TensorSpec
from partita.regions import Array, encode_array
from partita.regions.bit_packing import pack_codes

Blob = npt.NDArray[np.uint8] | bytes | memoryview

#: What every machine has, as ONNX Runtime calls it.
CPU = "CPUExecutionProvider"
#: Spreads of noise, in codes, between which that is found which packing leaves a share of; by how
#: many halvings, on how many codes.
_SPREADS, _HALVINGS, _TRIED = (0.1, 200.0), 8, 2**14


def size_of(blob: Blob) -> int:
    """The bytes of a blob."""
    return len(blob) if isinstance(blob, bytes) else int(blob.nbytes)


class Runner(Protocol):
    """One fragment, loaded and ready.

    Attributes:
        inputs: Name, shape and type of each input, in the fragment's order.
        outputs: The same of each output.
        providers: Execution providers that compute it, the preferred first.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    providers: tuple[str, ...]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for inputs in the fragment's order.

        Args:
            arrays: C-contiguous, with the shapes and types of ``inputs``; not changed, not kept.

        Raises:
            RunError: An input does not fit, or the computation failed.
        """


class Engine(Protocol):
    """Makes runners out of fragments."""

    def load(self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True) -> Runner:
        """The fragment ready to run.

        Args:
            graph: A serialised ONNX model whose large weights are external data, located by the
                SHA-256 of their bytes in 64 hex digits.
            blobs: The weights' bytes (uint8) by that hash; they may be dropped after the call.
            prepack: Whether weights may be copied and rearranged to run fast. Without, the fragment
                is ready sooner, answers the same, and may read them where they are: they must not
                change as long as the runner lives.

        Raises:
            RunError: The graph cannot be read, needs what this engine refuses, or lacks a blob.
        """


def make_inputs(specs: Sequence[TensorSpec], seed: int | np.random.Generator = 0) -> list[Array]:
    """Inputs of the shapes and types of ``specs``: normal floats, bytes, zeros and ones.

    Args:
        seed: Of the numbers, or the generator to draw from.
    """
    rng = np.random.default_rng(seed)
    return [_draw(rng, spec) for spec in specs]


def draw_feature(shape: Sequence[int], seed: int = 0) -> npt.NDArray[np.float32]:
    """What a layer with a ReLU makes, more or less: waves with noise, about half of them cut off.

    How long compressing takes depends on what there is to compress.

    Args:
        shape: The waves run along the last two axes.
    """
    rng = np.random.default_rng(seed)
    whole = np.ones(shape, np.float32)
    for axis, extent in list(enumerate(shape))[-2:]:
        wave = np.sin(np.arange(extent, dtype=np.float32) / np.float32(rng.uniform(2, 9)))
        whole *= wave.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    whole += rng.normal(0, 0.1, shape).astype(np.float32)
    return np.maximum(whole, 0, out=whole)


def draw_codes(count: int, bits: int, share: float) -> npt.NDArray[np.uint8]:
    """Codes of noise around the middle one, of which packing without loss leaves about a share.

    Args:
        bits: Of a code.
        share: Of the bytes that all codes take.
    """
    low, high = _SPREADS
    for _ in range(_HALVINGS):
        spread = float(np.sqrt(low * high))
        packed = pack_codes(_draw_noise(min(count, _TRIED), bits, spread), bits)
        left = len(encode_array(packed, "zlib")) / max(1, packed.size)
        low, high = (spread, high) if left < share else (low, spread)
    return _draw_noise(count, bits, float(np.sqrt(low * high)))


def _draw_noise(count: int, bits: int, spread: float) -> npt.NDArray[np.uint8]:
    noise = np.random.default_rng(0).normal(2.0 ** (bits - 1), spread, count)
    codes: npt.NDArray[np.uint8] = np.clip(np.rint(noise), 0, 2**bits - 1).astype(np.uint8)
    return codes


def make_feeds(
    specs: Sequence[TensorSpec], seed: int | np.random.Generator = 0
) -> dict[str, Array]:
    """What :func:`make_inputs` draws, by name."""
    names = [spec.name for spec in specs]
    return dict(zip(names, make_inputs(specs, seed), strict=True))


def _draw(rng: np.random.Generator, spec: TensorSpec) -> Array:
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return rng.standard_normal(spec.shape, np.float32).astype(dtype)
    return rng.integers(0, 256 if dtype == np.uint8 else 2, spec.shape).astype(dtype)
