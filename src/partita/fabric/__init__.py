"""How devices reach each other: pieces, calls, notes, and who is alive."""

from partita.fabric.base import Endpoint, Payload, check_name
from partita.fabric.frames import (
    Beat,
    Credit,
    Failure,
    Note,
    Piece,
    PieceGate,
    decode_note,
    decode_piece,
    digest_stream,
    encode_note,
    encode_piece,
)
from partita.fabric.memory import MemoryEndpoint, MemoryFabric

__all__ = [
    "Beat",
    "Credit",
    "Endpoint",
    "Failure",
    "MemoryEndpoint",
    "MemoryFabric",
    "Note",
    "Payload",
    "Piece",
    "PieceGate",
    "check_name",
    "decode_note",
    "decode_piece",
    "digest_stream",
    "encode_note",
    "encode_piece",
]
