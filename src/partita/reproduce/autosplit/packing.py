"""Tables 4 to 6: what is sent and how: bytes, message, packing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCServer

import numpy as np

from partita.regions.bit_packing import Codes, pack_codes, packed_bytes, unpack_codes
from partita.regions.wire import Grid, decode_array, encode_array
from partita.reproduce.autosplit.setting import PAPER
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Claim, Drawn, Table, figure

_KIB = 2**10
#: Tables 4 and 6: a picture of bytes, activations of 4 bits.
_PICTURE, _ACTIVATION, _BITS = (432, 768, 3), (36, 64, 256), 4
_RUNS = 3


@figure(PAPER, 4, "RPC against a socket", kind="table")
def make_transports(bench: Bench) -> Drawn:
    """XML-RPC with numbers as text, and a plain socket, on this machine's loopback."""
    rows: list[tuple[Cell, ...]] = []
    claims = []
    for name, shape, bits, kib, ratio in (
        ("Cloud-Only", _PICTURE, 8, 972, 3566),
        ("Auto-Split", _ACTIVATION, _BITS, 288, 3981),
    ):
        bench.advance(name)
        payload = np.random.default_rng(0).integers(0, 256, packed_bytes(int(np.prod(shape)), bits))
        data = payload.astype(np.uint8).tobytes()
        rpc_s, socket_s = _time_rpc(data), _time_socket(data)
        size = len(data) / _KIB
        rows.append((name, kib, size, 1e3 * rpc_s, 1e3 * socket_s, ratio, rpc_s / socket_s))
        claims += [
            Claim(name, f"{kib} KB", f"{size:g} KiB", round(size) == kib, "count"),
            Claim(
                name,
                f"RPC takes {ratio} times as long as a socket",
                f"{rpc_s / socket_s:.0f} times on this machine",
                rpc_s / socket_s >= ratio,
                "measurement",
            ),
        ]
    text = 1.13 / 0.27e-3
    claims.append(
        Claim(
            "1.13 s over 0.27 ms",
            "3981",
            f"{text:.0f}; 4091 to 4283 with their rounding",
            4091 <= 3981 <= 4283,
            "count",
        )
    )
    table = Table(
        "Table 4: a message and its acknowledgement on loopback; medians of 3",
        ("benchmark", "KB, paper", "KiB", "RPC, ms", "socket, ms", "RPC/socket, paper", "ours"),
        tuple(rows),
    )
    notes = (
        "the paper's server has a network of 31 Gbit/s and a socket program in C++; ours is"
        " Python's XML-RPC, each number as text, and Python's socket",
    )
    return Drawn((table,), tuple(claims), (), notes)


def _median_s(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_RUNS):
        start_s = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start_s)
    return median(seconds)


def _time_rpc(data: bytes) -> float:
    """Seconds of one call whose argument is a list of numbers."""
    server = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False, allow_none=True)
    server.register_function(lambda values: len(values), "count")
    values = list(data)
    with _served(server.serve_forever, server.shutdown), server:
        proxy = ServerProxy(f"http://127.0.0.1:{server.server_address[1]}", allow_none=True)
        with proxy:
            return _median_s(lambda: proxy.count(values))


def _time_socket(data: bytes) -> float:
    """Seconds until the other end has it all and says so."""
    here, there = socket.socketpair()

    def receive() -> None:
        held = bytearray(len(data))
        while there.recv_into(held, len(held), socket.MSG_WAITALL) == len(held):
            there.sendall(b"1")

    def send() -> None:
        here.sendall(data)
        here.recv(1)

    def end() -> None:
        here.close()

    with there, _served(receive, end):
        return _median_s(send)


@contextmanager
def _served(serve: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Something served by a thread of its own meanwhile."""
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()


@figure(PAPER, 5, "What a message of activations carries", kind="table")
def make_message(_: Bench) -> Drawn:
    """The paper's fields, and where Partita has each."""
    count = int(np.prod(_ACTIVATION))
    header = 4 + 4 + 4 * len(_PICTURE) + 1
    grid = Grid(_BITS, 0.5, 3)
    codes = np.random.default_rng(0).integers(0, 2**_BITS, _ACTIVATION)
    values = ((codes - grid.zero) * np.float32(grid.scale)).astype(np.float32)
    payload = encode_array(values, grid.wire, grid)
    back = decode_array(payload, _ACTIVATION, "float32", grid.wire, grid)
    more = len(payload) - packed_bytes(count, _BITS)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("transmitted activation", "bytes (int8)", "codes, packed in their bits, and a checksum"),
        ("scale, zero-point", "float32 each", "in the plan, which both ends have"),
        (
            "input image shape",
            "list of int32",
            "of the piece, in the program, which both ends have",
        ),
        ("bits used", "int8", "in the plan; as part of the format in the digest of a header"),
    )
    table = Table("Table 5", ("field", "paper", "Partita"), rows, text_columns=3)
    claim = Claim(
        "activations (36,64,256) in 4 bits",
        f"{packed_bytes(count, _BITS) // _KIB} KB and a header of {header} bytes",
        f"{len(payload) - more:,} bytes and {more} of checksum, equal when they arrive",
        bool((back == values).all()) and more <= header,
        "count",
    )
    return Drawn((table,), (claim,), ())


@figure(PAPER, 6, "Packing and unpacking", kind="table")
def make_packing(_: Bench) -> Drawn:
    """Activations (36, 64, 256) of 4 bits: pairs along height and width, or across channels."""
    codes = np.random.default_rng(0).integers(0, 2**_BITS, _ACTIVATION).astype(np.uint8)
    flat = codes.reshape(-1)
    ways: dict[str, tuple[float | None, Callable[[], Codes]]] = {
        "Height-Width": (1.45, lambda: _loop_there_and_back(codes)),
        "Channel": (0.01, lambda: _pair_channels(codes)),
        "Partita": (None, lambda: unpack_codes(pack_codes(flat, _BITS), _BITS, flat.size)),
    }
    seconds = {}
    for name, (_paper, work) in ways.items():
        if not (np.asarray(work()).reshape(-1) == flat).all():
            raise AssertionError(f"packing '{name}' is no inverse")
        seconds[name] = _median_s(work)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, paper, seconds[name]) for name, (paper, _) in ways.items()
    )
    table = Table("Table 6: seconds there and back; medians of 3", ("way", "paper", "ours"), rows)
    claims = (
        Claim(
            "Height-Width against Channel",
            "145 times as long",
            f"{seconds['Height-Width'] / seconds['Channel']:.0f} times",
            seconds["Height-Width"] >= 10 * seconds["Channel"],
            "measurement",
        ),
        Claim(
            "Partita",
            "0.01 s across channels",
            f"{seconds['Partita']:.4f} s, whatever the axis",
            seconds["Partita"] <= 0.01,
            "measurement",
        ),
    )
    return Drawn((table,), claims, (), _NOTES)


_NOTES = (
    "how the paper packs along height and width it does not say: here pair by pair, in a loop;"
    " its processor is a Xeon E5-2690 v4",
)


def _pair_channels(codes: Codes) -> Codes:
    """Two neighbouring channels in a byte, and back."""
    packed = codes[..., 0::2] | codes[..., 1::2] << _BITS
    back = np.empty_like(codes)
    back[..., 0::2], back[..., 1::2] = packed & (2**_BITS - 1), packed >> _BITS
    return back


def _loop_there_and_back(codes: Codes) -> Codes:
    """Two neighbouring columns in a byte, pair by pair and channel by channel, and back."""
    height, width, channels = codes.shape
    back = np.empty_like(codes)
    for row in range(height):
        for column in range(0, width, 2):
            for channel in range(channels):
                pair = int(codes[row, column, channel])
                pair |= int(codes[row, column + 1, channel]) << _BITS
                back[row, column, channel] = pair & (2**_BITS - 1)
                back[row, column + 1, channel] = pair >> _BITS
    return back
