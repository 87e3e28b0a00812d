"""What clients of others are answered, over real sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.fronts import PATIENCE_S, Held, serving
from tests.worker.tiny import expected_chain, tiny_chain
from tritonclient import http as triton
from tritonclient.utils import InferenceServerException

from partita.errors import InputError, RunError
from partita.serve import Front, connection, listen_at

CHAIN = tiny_chain(2, 2).program
(INPUT,), (OUTPUT,) = CHAIN.inputs, CHAIN.outputs


@pytest.fixture
def client(url: str) -> Iterator[triton.InferenceServerClient]:
    """NVIDIA's client of the front."""
    with triton.InferenceServerClient(url.removeprefix("http://"), concurrency=4) as made:
        yield made


def input_of(array: Any, *, binary: bool = True) -> triton.InferInput:
    """An input as the client has it."""
    made = triton.InferInput(INPUT.name, list(array.shape), "FP32")
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def draw(seed: int = 0) -> Any:
    """An input."""
    return np.random.default_rng(seed).standard_normal(INPUT.shape, np.float32)


def body_of(array: Any) -> dict[str, Any]:
    """A request in JSON."""
    tensor = {"name": INPUT.name, "datatype": "FP32", "shape": list(array.shape)}
    return {"inputs": [tensor | {"data": array.ravel().tolist()}]}


def test_a_client_finds_out_what_is_served(client: triton.InferenceServerClient) -> None:
    """Health, the server, each model and the list of models."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny")
    assert client.is_model_ready("tiny", "1")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata("twin", "1") == {
        "name": "twin",
        "versions": ["1"],
        "platform": "partita_onnx",
        "inputs": [{"name": INPUT.name, "datatype": "FP32", "shape": list(INPUT.shape)}],
        "outputs": [{"name": OUTPUT.name, "datatype": "FP32", "shape": list(OUTPUT.shape)}],
    }
    index = client.get_model_repository_index()
    assert [(model["name"], model["state"]) for model in index] == [
        ("tiny", "READY"),
        ("twin", "READY"),
    ]


@pytest.mark.parametrize("sends_binary", [True, False])
@pytest.mark.parametrize("takes_binary", [True, False, None])
def test_a_client_gets_the_answer(
    client: triton.InferenceServerClient, sends_binary: bool, takes_binary: bool | None
) -> None:
    """In numbers or binary, both ways; with its own id."""
    array = draw()
    wanted = None
    if takes_binary is not None:
        wanted = [triton.InferRequestedOutput(OUTPUT.name, binary_data=takes_binary)]
    sent = [input_of(array, binary=sends_binary)]
    result = client.infer("tiny", sent, outputs=wanted, request_id="7", timeout=1, priority=2)
    assert result.get_response()["id"] == "7"
    assert result.get_response()["model_version"] == "1"
    np.testing.assert_array_equal(result.as_numpy(OUTPUT.name), expected_chain(CHAIN, array))


def test_many_clients_of_two_models_each_get_their_own_answer(
    client: triton.InferenceServerClient,
) -> None:
    """Requests of several threads, to both models at the same time."""

    def ask(number: int) -> bool:
        with triton.InferenceServerClient(client._parsed_url.netloc) as own:
            array = draw(number)
            got = own.infer(("tiny", "twin")[number % 2], [input_of(array)])
            return bool((got.as_numpy(OUTPUT.name) == expected_chain(CHAIN, array)).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(40)))


def test_what_is_wrong_is_said_with_what_is_allowed(client: triton.InferenceServerClient) -> None:
    """As the client shows it: shape, type, model, version, a compressed body."""
    wide = np.zeros(7, np.float32)
    for words, told in (
        (("tiny", [input_of(wide)]), rf"'{INPUT.name}' is FP32\[7\], the model takes FP32\["),
        (("other", [input_of(draw())]), "'other' is not served; allowed: tiny, twin"),
        (("tiny", [input_of(draw())], "9"), "'tiny' has no version '9'; allowed: 1"),
    ):
        with pytest.raises(InferenceServerException, match=told):
            client.infer(*words)
    with pytest.raises(InferenceServerException, match=r"\[415\].*Content-Encoding"):
        client.infer("tiny", [input_of(draw())], request_compression_algorithm="gzip")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/tiny/infer", 405),
        ("GET", "/v3", 404),
        ("GET", "/", 404),
        ("POST", "/v2/repository/models/other/load", 404),
        ("POST", "/v2/repository/models/tiny/unload", 404),
        ("POST", "/v2/models/tiny/infer", 400),
    ],
)
def test_paths_that_are_not_there_are_errors_of_the_protocol(
    url: str, method: str, path: str, status: int
) -> None:
    """One line in the field that clients read."""
    answer = httpx.request(method, url + path, timeout=PATIENCE_S)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.json()["error"]


def test_a_body_that_is_too_large_is_refused_before_it_is_there(url: str) -> None:
    """Whether it says how long it is or not; the connection goes on."""
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as own:
        for content in (b"x" * 200_000, iter([b"x" * 50_000] * 4), iter([b"x" * 10**6] * 6)):
            answer = own.post("/v2/models/tiny/infer", content=content)
            assert answer.status_code == 413
            assert "too large; allowed: " in answer.json()["error"]
        assert own.post("/v2/models/tiny/infer", json=body_of(draw())).status_code == 200


def test_a_client_that_leaves_half_way_harms_nobody(url: str) -> None:
    """Neither one that sends half a body, nor one that does not wait for its answer."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps(body_of(draw())).encode()
    head = f"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    for part in (b"", body[:20], body):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(head.encode() + part)
    assert httpx.post(f"{url}/v2/models/tiny/infer", json=body_of(draw())).status_code == 200


def post(url: str, path: str = "/v2/models/tiny/infer") -> httpx.Response:
    """One request, and its answer."""
    return httpx.post(url + path, json=body_of(np.ones(4, np.float32)), timeout=PATIENCE_S)


def test_a_client_that_sends_no_head_is_not_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, or half a head, also behind a request that was answered: it is hung up on."""
    whole = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(url) as first, connect(url) as second:
        second.sendall(whole)
        assert second.recv(65536).startswith(b"HTTP/1.1 200 OK")
        monkeypatch.setattr(connection, "_HEAD_S", 0.05)
        second.sendall(whole[:-9])
        first.sendall(whole[:-9])
        with connect(url) as third:
            assert [each.recv(65536) for each in (first, second, third)] == [b""] * 3


def test_a_head_has_a_limit(url: str) -> None:
    """Lines that never end would fill the memory."""
    with connect(url) as connected:
        connected.sendall(b"GET /v2 HTTP/1.1\r\n" + b"a: b\r\n" * (2**16 // 6 + 1))
        assert b"The head is too large; allowed: 65536 bytes." in connected.recv(65536)


def connect(url: str) -> socket.socket:
    """A connection on which nothing was sent."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def test_overload_is_turned_away_at_once_and_what_was_taken_is_answered() -> None:
    """503 with the seconds to wait; health stays as it is."""
    source = Held()
    with (
        Front([source], queue=1) as front,
        serving(front) as url,
        ThreadPoolExecutor(3) as pool,
    ):
        (session,) = source.sessions
        taken = [pool.submit(post, url) for _ in range(2)]
        session.await_asked(2)
        taken.append(pool.submit(post, url))
        model = front.find("tiny")
        assert model is not None
        while model.unanswered < 3:
            pass
        refused = post(url)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "busy" in refused.json()["error"]
        assert httpx.get(f"{url}/v2/health/ready").status_code == 200
        session.answer(2)
        session.await_asked()
        session.answer()
        assert [future.result().status_code for future in taken] == [200] * 3


def test_a_model_whose_session_has_ended_is_not_ready() -> None:
    """Whose request failed gets the error, those after it are asked to come again."""
    source = Held()
    with (
        Front([source], queue=1, retry_s=1e6) as front,
        serving(front) as url,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(post, url)
        source.sessions[0].await_asked()
        source.sessions[0].answer(error=RunError("Device 'a' is lost."))
        assert answer.result().status_code == 500
        assert answer.result().json() == {"error": "Device 'a' is lost."}
        later = post(url)
        assert (later.status_code, later.headers["retry-after"]) == (503, "1")
        assert later.json()["error"] == "Model 'tiny' is down: Device 'a' is lost. Ask again later."
        assert httpx.get(f"{url}/v2/health/live").status_code == 200
        for path in ("health/ready", "models/tiny/ready"):
            assert httpx.get(f"{url}/v2/{path}").status_code == 503
        (state,) = post(url, "/v2/repository/index").json()
        assert (state["state"], state["reason"]) == ("UNAVAILABLE", "Device 'a' is lost.")
        assert post(url, "/v2/repository/models/tiny/load").status_code == 400  # with a body
        loaded = httpx.post(f"{url}/v2/repository/models/tiny/load", timeout=PATIENCE_S)
        assert loaded.json() == {"name": "tiny", "version": "2"}
        assert httpx.get(f"{url}/v2/health/ready").status_code == 200


def test_heads_and_bodies_leave_at_once() -> None:
    """Connections wait for no acknowledgement: each answer would take 40 ms more."""
    with (
        listen_at("127.0.0.1:0") as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as far,
    ):
        assert far.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_one_line() -> None:
    """It names the address, and what to do."""
    with listen_at("127.0.0.1:0") as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"'{place}' cannot be listened at: Address already"):
            listen_at(place)


@pytest.mark.parametrize("address", ["", "8000", ":8000", "127.0.0.1:", "a:b", "a:99999", "[::1]"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """It says what is allowed."""
    with pytest.raises(InputError, match="HOST:PORT with a port from 0 to 65535"):
        listen_at(address)
