"""How devices reach each other: pieces, calls, notes, and who is alive."""

from partita.fabric.awake import AwakeClock
from partita.fabric.base import Caller, Endpoint
from partita.fabric.certificates import TlsOptions
from partita.fabric.frames import (
    Beat,
    Credit,
    Failure,
    Note,
    PieceGate,
    PieceHeader,
    decode_note,
    digest_stream,
    encode_header,
    encode_note,
)
from partita.fabric.memory import MemoryEndpoint, MemoryFabric
from partita.fabric.shaped import ShapedEndpoint
from partita.fabric.zenoh_endpoint import ZenohEndpoint
from partita.fabric.zenoh_options import (
    WORKER_ENV,
    ZenohOptions,
    check_exposure,
    check_network,
    control_address,
    find_misnamed,
)

__all__ = [
    "WORKER_ENV",
    "AwakeClock",
    "Beat",
    "Caller",
    "Credit",
    "Endpoint",
    "Failure",
    "MemoryEndpoint",
    "MemoryFabric",
    "Note",
    "PieceGate",
    "PieceHeader",
    "ShapedEndpoint",
    "TlsOptions",
    "ZenohEndpoint",
    "ZenohOptions",
    "check_exposure",
    "check_network",
    "control_address",
    "decode_note",
    "digest_stream",
    "encode_header",
    "encode_note",
    "find_misnamed",
]
