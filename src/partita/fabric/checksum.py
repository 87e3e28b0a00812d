"""A checksum of chunks, for what damages them on their way and is no attack.

TCP's own has 16 bits, and none guards what brokers and buffers hold.
"""

from __future__ import annotations

import xxhash

from partita.fabric.base import Payload


def compute_checksum(data: Payload, prefix: bytes = b"") -> int:
    """XXH3 of ``data`` in 64 bits, begun with that of ``prefix``.

    >>> compute_checksum(b"abc") == compute_checksum(b"abd")
    False
    """
    return xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(prefix))
