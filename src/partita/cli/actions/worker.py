"""Being a device; imports what comes with the core installation only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnxruntime as ort

from partita.cli.credentials import read_credentials, read_own_join
from partita.cli.output import show_log
from partita.errors import ClusterError, InputError
from partita.fabric import ZenohOptions
from partita.fabric.router import run_router
from partita.units import parse_quantity
from partita.worker import WorkerOptions, run_worker
from partita.worker.rejoin import JoinWatch, await_change
from partita.worker.serve import heed_signals

__all__ = [
    "WorkerOptions",
    "ZenohOptions",
    "check_providers",
    "join_network",
    "parse_size",
    "read_credentials",
    "serve",
]


def serve(options: WorkerOptions, *, quiet: bool = False) -> None:
    """Serve as one device until stopped; what happens meanwhile is told on stderr."""
    with show_log(logging.WARNING if quiet else logging.INFO):
        run_worker(options)


def join_network(path: Path, network: ZenohOptions, *, is_told: bool) -> ZenohOptions:
    """``network`` as a join file says, with what flags add.

    Args:
        path: The file.
        network: What flags say.
        is_told: Whether flags say where to listen, too.

    Raises:
        ClusterError: It is not of the role that ``network`` has, or cannot work.
    """
    join = read_own_join(path)
    member = join.member
    if member.role != network.role:
        raise ClusterError(
            f"Join file '{path}' is a {member.role}'s: give the one that partita keys made for this"
            f" {network.role}.",
            subject=str(path),
        )
    own = (member.address,) if member.address else ()
    met = join.others if member.role == "worker" else join.routers
    joined = replace(
        network,
        name=member.name,
        listen=network.listen if is_told else own,
        connect=(*network.connect, *met),
        multicast=network.multicast or not member.address,
    )
    return join.apply(joined, str(path))


def route(options: ZenohOptions, join: Path | None) -> None:
    """Be a router until stopped; that it listens is told on stderr.

    Args:
        join: The join file that ``options`` are from. Who is in no more by it is let through no
            more, at once; all else waits for a new start, as nobody knows when nothing passes.
    """
    ended = threading.Event()
    network: ZenohOptions | None = options
    with show_log(logging.INFO), heed_signals(ended, "router"):
        while network is not None:
            watch = None if join is None else JoinWatch(join, network, lambda: False)
            network = run_router(network, partial(await_change, watch, ended))


def parse_size(flag: str, text: str) -> int:
    """The bytes that a flag's text such as ``4 GB`` names.

    Raises:
        InputError: It is no size, or out of range.
    """
    try:
        size_bytes = parse_quantity(text, "bytes")
    except ValueError as error:
        raise InputError(f"{flag}: {error}.", subject=flag) from error
    if not 1e6 <= size_bytes <= 1e15:
        raise InputError(f"{flag} is '{text}', allowed: 1 MB to 1000000 GB.", subject=flag)
    return int(size_bytes)


def check_providers(names: Sequence[str]) -> None:
    """Refuse names that no ONNX Runtime has; known ones that are not here fall back.

    Raises:
        InputError: A name is unknown.
    """
    known = ort.get_all_providers()
    for name in names:
        if name not in known:
            raise InputError(
                f"--provider '{name}' is unknown, allowed: {', '.join(known)}.",
                subject="--provider",
            )
