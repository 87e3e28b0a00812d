"""Good inputs of every kind, and what the program does with damaged ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from partita.cluster import Device, dump_cluster, load_cluster
from partita.compile import check_plan, compile_plan
from partita.engine import OrtEngine
from partita.errors import RunError
from partita.fabric import (
    Beat,
    Credit,
    Failure,
    Note,
    PieceHeader,
    ZenohOptions,
    digest_stream,
    encode_header,
)
from partita.fabric.arena import Arena
from partita.fabric.frames import decode_note, encode_note
from partita.fabric.join import decode_join
from partita.fabric.local_socket import LocalListener
from partita.fabric.zenoh_options import session_config
from partita.loading import load_bundle
from partita.loading.bundle.manifest import MANIFEST
from partita.plan import dump_plan, load_plan
from partita.profile import dump_profile, load_profile
from partita.program import Program
from partita.version import VERSION
from partita.worker import Worker
from partita.worker.leaders import AskLeaders
from partita.worker.messages import (
    PROTOCOL_VERSION,
    BeginTraces,
    Calibrate,
    Have,
    Hello,
    Measure,
    MessageFlow,
    OfEpoch,
    Prepare,
    Put,
    SpansFrom,
    TimeMessages,
    encode_message,
    feed_streams,
)
from tests.cost.fakes import conv_graph, skip_graph, straight_profile
from tests.fabric.sites import new_site
from tests.laws.random_plans import draw_cluster, draw_plan
from tests.loading.bundles import ask, split
from tests.memory_lab import memory_lab
from tests.mutations import Outcome, judge, mutate_bytes, mutate_tree
from tests.worker.tiny import tiny_chain

#: A local frame's head: length of the header, of the payload, and its place in the arena.
_FRAME = struct.Struct("<IQq")
#: Damages inputs of one kind: ``try_some(rng, count, outcome)``.
Kind = Callable[[Random, int, Outcome], None]


def try_calls(rng: Random, count: int, outcome: Outcome) -> None:
    """Calls to a worker: every method with fields and bytes changed."""
    tiny = tiny_chain(2, 2)
    for start in range(0, count, 200):
        with memory_lab([Device("d0"), Device("d1")], engine=OrtEngine(1)) as lab:
            lab.endpoint.announce(b"")
            messages = _good_calls(tiny.program, {**tiny.graphs, **tiny.blobs})
            for _ in range(min(200, count - start)):
                method, message = rng.choice(messages)
                data = encode_message(message)
                if rng.random() < 0.7:
                    tree = mutate_tree(msgspec.msgpack.decode(data), rng)
                    with contextlib.suppress(OverflowError):
                        data = msgspec.msgpack.encode(tree)
                else:
                    data = mutate_bytes(data, rng)
                judge(outcome, _call(lab.endpoint.call, method, data), data)
                _collect_errors(lab.workers["d0"], outcome, data)
            _join_loads()


def _join_loads() -> None:
    """Return when no fragment is being loaded: a process must not end meanwhile."""
    for thread in threading.enumerate():
        if thread.name.endswith(("/load", "/calibrate", "/measure")):
            thread.join(30)


def _call(call: Callable[..., object], method: str, data: bytes) -> Callable[[], object]:
    return lambda: call("d0", method, data, 20.0)


def _good_calls(program: Program, contents: dict[str, Any]) -> list[tuple[str, msgspec.Struct]]:
    blobs = {name: bytes(content) for name, content in contents.items()}
    puts = [("put", Put(name, 0, len(data), data)) for name, data in blobs.items()]
    prepares = [("prepare", Prepare(epoch, program, "leader")) for epoch in (1, 2, 3)]
    epochs = ("progress", "activate", "retire", "stats", "measured")
    return [
        *puts,
        *prepares * 4,
        ("hello", Hello(VERSION, PROTOCOL_VERSION)),
        ("have", Have(1, tuple(blobs))),
        ("calibrate", Calibrate(1, 1)),
        ("spans", SpansFrom(1, 0, 10)),
        ("probe", TimeMessages((MessageFlow("d1", 10, 1),))),
        ("begin_traces", BeginTraces(0.0)),
        ("measure", Measure(9)),
        ("ask_leaders", AskLeaders("sample", b"\x80")),
        ("ask_leaders", AskLeaders("drain", wait_s=0.1)),
        *((method, OfEpoch(epoch)) for method in epochs for epoch in (1, 2)),
    ]


def _collect_errors(worker: Worker, outcome: Outcome, data: bytes) -> None:
    """Judge what became of plans that a worker took: their faults are said in words, too."""
    for runtime in list(worker._epochs.values()):
        if runtime.error.split(": ", 1)[-1].startswith(("KeyError", "TypeError", "IndexError")):
            outcome.bare[runtime.error] = data


def try_frames(rng: Random, count: int, outcome: Outcome) -> None:
    """Frames to a worker that runs a plan: headers, payloads and notes changed."""
    tiny = tiny_chain(2, 2)
    (feed,) = feed_streams(tiny.program, "leader")
    header = PieceHeader(1, 0, (), feed.id, digest_stream(feed), feed.wire_bytes)
    notes: list[Note] = [Credit(1, 0), Beat(1, 5), Failure(1, "d0", "step", 0, "words")]
    for start in range(0, count, 500):
        with memory_lab([Device("d0"), Device("d1")], engine=OrtEngine(1)) as lab:
            worker = lab.workers["d0"]
            lab.endpoint.announce(b"")
            for name, content in {**tiny.graphs, **tiny.blobs}.items():
                put = Put(name, 0, len(bytes(content)), bytes(content))
                lab.endpoint.call("d0", "put", encode_message(put), 5.0)
            prepare = encode_message(Prepare(1, tiny.program, "leader"))
            lab.endpoint.call("d0", "prepare", prepare, 5.0)
            _join_loads()
            told: list[RunError] = []
            worker._on_fault = told.append  # type: ignore[method-assign, assignment]
            for number in range(min(500, count - start)):
                is_note = number % 3 == 0
                good = encode_note(rng.choice(notes)) if is_note else encode_header(header)
                data, payload = _mutate_message(good, rng), bytes(feed.wire_bytes)
                payload = mutate_bytes(payload, rng) if rng.random() < 0.3 else payload
                told.clear()
                if is_note:
                    judge(outcome, partial(_note, worker, data), data)
                else:
                    worker._on_frame("leader", data, memoryview(payload))
                    judge(outcome, partial(_raise_first, told), data)


def _note(worker: Worker, data: bytes) -> None:
    decode_note("leader", data)
    worker._on_note("leader", data)


def _raise_first(errors: list[RunError]) -> None:
    if errors:
        raise errors[0]


def _mutate_message(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        return mutate_bytes(data, rng)
    with contextlib.suppress(OverflowError):
        return msgspec.msgpack.encode(mutate_tree(msgspec.msgpack.decode(data), rng))
    return mutate_bytes(data, rng)


def try_sockets(rng: Random, count: int, outcome: Outcome) -> None:
    """Bytes to a listener of this host: greetings and frames changed."""
    rejected: list[str] = []
    listener = LocalListener("mutate", lambda *_: None, rejected.append)
    try:
        for _ in range(count):
            frames = [_FRAME.pack(4, size, place) + b"head" for size, place in ((7, -1), (64, 64))]
            hello = b"\x01s" + listener.admit("s")[len(listener.address) :]
            data = mutate_bytes(hello + frames[0] + b"payload" + frames[1], rng)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(listener.address)
                arena = Arena(4096)
                with contextlib.suppress(OSError):
                    socket.send_fds(connection, [data], [arena.file])
                os.close(arena.file)
            while listener._readers:
                time.sleep(0.0005)
            told, rejected[:] = list(rejected), []
            judge(outcome, partial(_raise_words, told), data)
    finally:
        listener.close()


def _raise_words(words: list[str]) -> None:
    if words:
        raise RunError(words[0])


def try_joins(rng: Random, count: int, outcome: Outcome) -> None:
    """Join files: fields and bytes changed, also within certificates and keys."""
    with tempfile.TemporaryDirectory() as folder:
        good = new_site(Path(folder) / "site").join_file("nano").read_bytes()
    for _ in range(count):
        damaged = _mutate_pem(good, rng) if rng.random() < 0.4 else _mutate_json(good, rng)
        judge(outcome, partial(_join, damaged), damaged)


def _join(damaged: bytes) -> None:
    join = decode_join(damaged, "nano.join")
    session_config(join.apply(ZenohOptions(join.name), "nano.join"), control=True)


def _mutate_pem(data: bytes, rng: Random) -> bytes:
    tree = json.loads(data)
    part = rng.choice(("authority", "certificate", "key"))
    tree[part] = mutate_bytes(tree[part].encode(), rng).decode(errors="replace")
    return json.dumps(tree).encode()


def try_files(rng: Random, count: int, outcome: Outcome) -> None:
    """Cluster, profile and plan files."""
    graph = skip_graph()
    profile = dump_profile(straight_profile(graph))
    cases: list[Callable[[], None]] = []

    def cluster() -> None:
        data = dump_cluster(draw_cluster(rng)).encode()
        if rng.random() < 0.5:
            damaged = mutate_bytes(data, rng)
            judge(outcome, lambda: load_cluster(damaged), damaged)
            return
        tree = mutate_tree(tomllib.loads(data.decode()), rng)
        judge(outcome, lambda: load_cluster(tree), repr(tree).encode())

    def measured() -> None:
        damaged = _mutate_json(profile, rng)
        judge(outcome, lambda: load_profile(damaged), damaged)

    def planned() -> None:
        drawn = draw_cluster(rng)
        damaged = _mutate_json(dump_plan(draw_plan(rng, graph, drawn)), rng)

        def attempt() -> None:
            plan = load_plan(damaged)
            check_plan(graph, plan, drawn)
            compile_plan(graph, plan, drawn)

        judge(outcome, attempt, damaged)

    cases += [cluster, measured, planned]
    for number in range(count):
        cases[number % len(cases)]()


def _mutate_json(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        return mutate_bytes(data, rng)
    return json.dumps(mutate_tree(json.loads(data), rng)).encode()


def try_bundles(rng: Random, count: int, outcome: Outcome, folder: Path) -> None:
    """Files of a bundle: its manifest, mostly with a hash that fits, children and weights."""
    graph = conv_graph()
    good = split(graph, folder / "good", (1, 3))
    feeds = ask(graph)
    files = sorted(path.relative_to(good) for path in good.rglob("*") if path.is_file())
    for _ in range(count):
        name = rng.choice([Path(MANIFEST)] * 6 + files)
        data = (good / name).read_bytes()
        is_honest = name == Path(MANIFEST) and rng.random() < 0.7
        damaged = _mutate_manifest(data, rng) if is_honest else mutate_bytes(data, rng)
        with _changed(good, folder / "damaged", name, damaged) as place:

            def attempt(place: Path = place) -> None:
                with load_bundle(place) as session:
                    session.run(None, feeds)

            judge(outcome, attempt, damaged)


@contextlib.contextmanager
def _changed(good: Path, place: Path, name: Path, data: bytes) -> Iterator[Path]:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(good, place)
    (place / name).write_bytes(data)
    yield place


def _mutate_manifest(data: bytes, rng: Random) -> bytes:
    content = mutate_tree(json.loads(data), rng)
    if isinstance(content, dict):
        bare = {key: value for key, value in content.items() if key != "hash"}
        with contextlib.suppress(Exception):
            encoded = msgspec.json.Encoder(order="sorted").encode(bare)
            content["hash"] = hashlib.sha256(encoded).hexdigest()
    return json.dumps(content).encode()
