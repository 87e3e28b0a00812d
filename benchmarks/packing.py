"""Packing and unpacking codes on their way, against bit planes, which NumPy's own packing works on.

A float32 tensor of 36 x 64 x 256 elements, on one core: from values to payload and back, checksum
included. The rival is made of NumPy's ``packbits`` and ``unpackbits`` and has no checksum. Prints
one table; ``--json`` prints the same as JSON.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Row, make_parser, report, take_turns
from partita.regions import CODE_BITS, decode_array, encode_array, wire_bytes

SHAPE = (36, 64, 256)
ROUNDS = 30
#: Least rate wanted of 4 bits, in GB of float a second.
WANTED_GB_S = 1.0

Floats = npt.NDArray[np.float32]


def encode_planes(values: Floats, bits: int) -> bytes:
    """Return the payload: quantise, take the codes apart into bits, pack the bits."""
    low, high = float(values.min()), float(values.max())
    scale = (high - low) / (2**bits - 1)
    codes = np.rint((values.reshape(-1) - low) / scale).astype(np.uint8)
    if bits < 8:
        planes = np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :]
        codes = np.packbits(planes.reshape(-1))
    prefix: bytes = np.array([scale, low], "<f4").tobytes()
    return prefix + bytes(codes)


def decode_planes(payload: bytes, bits: int) -> Floats:
    """Return the values: take the bytes apart into bits, put those of a code together."""
    scale, low = np.frombuffer(payload, "<f4", 2)
    count = int(np.prod(SHAPE))
    codes = np.frombuffer(payload, np.uint8, offset=8)
    if bits < 8:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, 8 - bits :] = np.unpackbits(codes, count=count * bits).reshape(count, bits)
        codes = np.packbits(wide, axis=1)[:, 0]
    values: Floats = codes.astype(np.float32) * scale + low
    return values.reshape(SHAPE)


def main() -> int:
    """Run the benchmark."""
    args = make_parser(__doc__).parse_args()
    values = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    rows: list[Row] = []
    for bits in CODE_BITS:
        wire = f"uint{bits}"
        ours, theirs = bytes(encode_array(values, wire)), encode_planes(values, bits)
        assert len(ours) == wire_bytes(SHAPE, "float32", wire)
        decoded = np.asarray(decode_array(ours, SHAPE, "float32", wire), np.float32)
        assert np.abs(decoded - decode_planes(theirs, bits)).max() < 1e-5
        seconds = take_turns(
            {
                "pack": lambda wire=wire: encode_array(values, wire),  # type: ignore[misc]
                "pack planes": lambda bits=bits: encode_planes(values, bits),  # type: ignore[misc]
                "unpack": lambda ours=ours, wire=wire: decode_array(ours, SHAPE, "float32", wire),  # type: ignore[misc]
                "unpack planes": lambda theirs=theirs, bits=bits: decode_planes(theirs, bits),  # type: ignore[misc]
            },
            rounds=ROUNDS,
        )
        rates = {name: values.nbytes / 1e9 / one for name, one in seconds.items()}
        for way in ("pack", "unpack"):
            ours_rate, rival = rates[way], rates[f"{way} planes"]
            target, met = ("", None) if bits != 4 else (f">= {WANTED_GB_S:g} GB/s", ours_rate >= 1)
            case = f"{way} {bits} bits, float32 {'x'.join(map(str, SHAPE))}"
            rows.append(Row(case, "GB/s", ours_rate, rival, ours_rate / rival, target, met))
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    raise SystemExit(main())
