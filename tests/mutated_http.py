"""Damaged HTTP requests to a front: bodies, headers and whole messages."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

import numpy as np

from partita.errors import InputError
from tests.mutations import ODD_VALUES, Outcome, judge, mutate_bytes, mutate_tree
from tests.serve.fronts import serving, tiny_front
from tests.worker.tiny import expected_chain, tiny_chain

#: A front that says nothing for so long waits for more of the request.
_QUIET_S = 0.3
#: One that says nothing for so long after the request's end hangs.
_HANG_S = 20.0
_CLIENTS = 8

_CHAIN = tiny_chain(2, 2).program
_ARRAY = np.arange(4, dtype=np.float32)
_TENSOR = {"name": _CHAIN.inputs[0].name, "datatype": "FP32", "shape": list(_ARRAY.shape)}
_OUTPUT = {"name": _CHAIN.outputs[0].name, "parameters": {"binary_data": True}}
_PLAIN = {"id": "1", "inputs": [_TENSOR | {"data": _ARRAY.ravel().tolist()}], "parameters": {}}
_BINARY = {
    "inputs": [_TENSOR | {"parameters": {"binary_data_size": _ARRAY.nbytes}}],
    "outputs": [_OUTPUT],
}
_INFER = "POST /v2/models/tiny/infer"
_LENGTH = "Inference-Header-Content-Length"


def try_http(rng: Random, count: int, outcome: Outcome) -> None:
    """Requests to a front; afterwards it holds nothing and answers a good one."""
    for start in range(0, count, 500):
        damaged = [_damage(rng) for _ in range(min(500, count - start))]
        with tiny_front() as front, serving(front) as url, ThreadPoolExecutor(_CLIENTS) as pool:
            host, port = url.removeprefix("http://").split(":")
            talk = partial(_exchange, (host, int(port)))
            for data, answer in zip(damaged, pool.map(talk, damaged), strict=True):
                judge(outcome, partial(_check, answer), data)
            good = _message(_INFER, json.dumps(_PLAIN).encode())
            judge(outcome, partial(_check_good, talk(good), lambda: front.unanswered), good)


def _damage(rng: Random) -> bytes:
    """A request with fields of its body, its bytes, its headers or the whole message changed."""
    tree, block = rng.choice(((_PLAIN, b""), (_BINARY, _ARRAY.tobytes())))
    how = rng.choice(("tree", "tree", "body", "body", "header", "path", "message"))
    if how == "tree":
        tree = mutate_tree(tree, rng)
    head = json.dumps(tree).encode()
    body = head + block
    length = len(head)
    if how == "body":
        body = mutate_bytes(body, rng)
    headers = {_LENGTH: str(length)} if block else {}
    if how == "header":
        name = rng.choice((_LENGTH, "Content-Length", "Content-Encoding", "Transfer-Encoding"))
        text = str(rng.choice((*ODD_VALUES, length + 1, "chunked", "gzip")))
        headers[name] = re.sub(r"[^\x20-\x7e]", "?", text)
    line = _INFER
    if how == "path":
        paths = ("", "/health/ready", "/models/tiny", "/models/tiny/ready", "/repository/index")
        line = f"{rng.choice(('GET', 'POST', 'PUT', 'HEAD'))} /v2{rng.choice(paths)}"
    message = _message(line, body, headers)
    return mutate_bytes(message, rng) if how == "message" else message


def _message(line: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    fields = {"Host": "front", "Content-Length": str(len(body)), **(headers or {})}
    head = "\r\n".join([f"{line} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())])
    return head.encode() + b"\r\n\r\n" + body


def _exchange(place: tuple[str, int], data: bytes) -> bytes:
    """What comes back for ``data``; ``hang`` where nothing does and the connection stays."""
    answer = bytearray()
    with socket.create_connection(place, timeout=_QUIET_S) as raw:
        try:
            raw.sendall(data)
            return _receive(raw, answer)
        except ConnectionError:
            return b""
        except TimeoutError:
            raw.settimeout(_HANG_S)
        try:
            raw.shutdown(socket.SHUT_WR)
            return _receive(raw, answer)
        except TimeoutError:
            return b"hang"
        except OSError:
            return b""


def _receive(raw: socket.socket, answer: bytearray) -> bytes:
    """A whole answer, or what comes before the end; ``answer`` has what came so far."""
    while part := raw.recv(65_536):
        answer += part
        head, end, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if end and (length is None or len(body) >= int(length[1])):
            break
    return bytes(answer)


def _check(answer: bytes) -> None:
    """Taken, refused in one line, or given up by closing the connection; nothing else."""
    if answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 100")):
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer or (head.startswith(b"HTTP/1.1 400") and b"text/plain" in head):
        raise InputError("The server takes it for no HTTP.")
    if head.startswith((b"HTTP/1.1 4", b"HTTP/1.1 503")):
        raise InputError(json.loads(body)["error"] if body else "no body, as asked for")
    raise RuntimeError(f"answered {answer[:200]!r}")


def _check_good(answer: bytes, unanswered: Callable[[], int]) -> None:
    expected = expected_chain(_CHAIN, _ARRAY).ravel().tolist()
    got = json.loads(answer.partition(b"\r\n\r\n")[2])["outputs"][0]["data"]
    if got != expected or unanswered():
        raise RuntimeError(f"after it {unanswered()} are unanswered, a good one gets {got}")
