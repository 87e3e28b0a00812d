"""Being a device; imports what comes with the core installation only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnxruntime as ort

from partita.cli.credentials import read_credentials
from partita.cli.output import show_log
from partita.errors import ClusterError, InputError
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join
from partita.fabric.router import run_router
from partita.units import parse_quantity
from partita.worker import WorkerOptions, run_worker
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
        ClusterError: It is no join file of a worker, or cannot work.
    """
    join = read_join(path)
    member = join.member
    if member.role != "worker":
        raise ClusterError(
            f"Join file '{path}' is a {member.role}'s, which does not serve: give the one that"
            " partita keys made for this device.",
            subject=str(path),
        )
    own = (member.address,) if member.address else ()
    joined = replace(
        network,
        name=member.name,
        listen=network.listen if is_told else own,
        connect=(*network.connect, *join.others),
        multicast=network.multicast or not member.address,
    )
    return join.apply(joined, str(path))


def route(options: ZenohOptions) -> None:
    """Be a router until stopped; that it listens is told on stderr."""
    ended = threading.Event()
    with show_log(logging.INFO), heed_signals(ended):
        run_router(options, ended)


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
