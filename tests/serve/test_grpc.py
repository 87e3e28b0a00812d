"""What NVIDIA's gRPC client, and calls that no client sends, are answered."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from tests.serve.fronts import PATIENCE_S, Held, HeldSession, serving, tiny_front
from tests.serve.test_http import CHAIN, INPUT, OUTPUT, body_of, draw
from tests.worker.tiny import expected_chain
from tritonclient import grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from partita.errors import InputError, RunError
from partita.program import TensorSpec
from partita.serve import Front, listen_at
from partita.serve.grpc_messages import MESSAGES
from partita.serve.grpc_service import GrpcServer
from partita.serve.server import place_of


@contextlib.contextmanager
def answering(front: Front) -> Iterator[str]:
    """Answer calls for ``front``; the address."""
    with (
        contextlib.closing(GrpcServer("127.0.0.1:0")) as server,
        server.answering(front),
    ):
        yield server.place


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """Where two models of the same chain answer."""
    with tiny_front(("tiny", "twin")) as front, answering(front) as found:
        yield found


@pytest.fixture
def client(place: str) -> Iterator[triton.InferenceServerClient]:
    """NVIDIA's client of the service."""
    with triton.InferenceServerClient(place) as made:
        yield made


def input_of(array: Any, name: str = INPUT.name) -> triton.InferInput:
    """An input as the client has it."""
    made = triton.InferInput(name, list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


def call(place: str, method: str, data: bytes) -> bytes:
    """The answer to a call whose bytes may be anything."""
    with grpc.insecure_channel(place) as channel:
        ask = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        answer: bytes = ask(data, timeout=PATIENCE_S)
        return answer


def refusal(place: str, data: bytes, method: str = "ModelInfer") -> tuple[grpc.StatusCode, str]:
    """The code and the words with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call(place, method, data)
    return caught.value.code(), caught.value.details()


def test_messages_are_those_of_the_protocol() -> None:
    """Each field has the number, the type and the rest that NVIDIA's client knows it by."""
    for name, kind in MESSAGES.items():
        theirs = getattr(service_pb2, name, None)
        for holder in ("ModelMetadataResponse", "ModelInferRequest", "ModelInferResponse"):
            theirs = theirs or getattr(getattr(service_pb2, holder), name, None)
        theirs = theirs or service_pb2.ModelInferRequest.ParametersEntry
        for field in kind.DESCRIPTOR.fields:
            same = theirs.DESCRIPTOR.fields_by_name[field.name]
            assert (field.number, field.type) == (same.number, same.type), (name, field.name)
            assert field.is_repeated == same.is_repeated
            assert (field.containing_oneof is None) == (same.containing_oneof is None)


def test_a_client_finds_out_what_is_served(client: triton.InferenceServerClient) -> None:
    """Health, the server and each model, as over HTTP."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny", "1")
    assert client.get_server_metadata().name == "partita"
    model = client.get_model_metadata("twin")
    assert (model.name, list(model.versions), model.platform) == ("twin", ["1"], "partita_onnx")
    for found, spec in ((model.inputs[0], INPUT), (model.outputs[0], OUTPUT)):
        assert (found.name, found.datatype, tuple(found.shape)) == (spec.name, "FP32", spec.shape)


def test_a_client_gets_the_answer(client: triton.InferenceServerClient) -> None:
    """With its own id, whether it names outputs or not."""
    array = draw()
    for wanted in (None, [triton.InferRequestedOutput(OUTPUT.name)]):
        result = client.infer("tiny", [input_of(array)], outputs=wanted, request_id="7")
        assert (result.get_response().id, result.get_response().model_version) == ("7", "1")
        np.testing.assert_array_equal(result.as_numpy(OUTPUT.name), expected_chain(CHAIN, array))


def test_answers_of_a_fallback_are_marked() -> None:
    """By a parameter of the answer, over gRPC and HTTP; answers of the plan have none."""
    array = draw()
    with tiny_front(("tiny",)) as front, answering(front) as place, serving(front) as url:
        session = front.get("tiny", "").session
        for fallback, mark in ((session.program.plan_hash, {"fallback": True}), ("other", {})):
            session.fallback = fallback
            with triton.InferenceServerClient(place) as client:
                got = client.infer("tiny", [input_of(array)]).get_response().parameters
            assert {key: value.bool_param for key, value in got.items()} == mark
            answer = httpx.post(
                f"{url}/v2/models/tiny/infer", json=body_of(array), timeout=PATIENCE_S
            ).json()
            assert answer.get("parameters", {}) == mark


def test_many_calls_each_get_their_own_answer(client: triton.InferenceServerClient) -> None:
    """Calls of several threads, to both models at the same time."""

    def ask(number: int) -> bool:
        array = draw(number)
        result = client.infer(("tiny", "twin")[number % 2], [input_of(array)])
        return bool((result.as_numpy(OUTPUT.name) == expected_chain(CHAIN, array)).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(40)))


@pytest.mark.parametrize(
    ("dtype", "field", "odd"),
    [
        ("float32", "fp32_contents", None),
        ("int8", "int_contents", 200),
        ("uint16", "uint_contents", 2**16),
        ("bool", "bool_contents", None),
        ("int64", "int64_contents", None),
    ],
)
def test_numbers_may_come_as_numbers(dtype: str, field: str, odd: int | None) -> None:
    """Each type in its list; numbers that the type cannot hold are refused."""
    spec = TensorSpec("input", (2, 2), dtype)
    source = Held()
    with Front([source], queue=4) as front, answering(front) as place:
        (session,) = source.sessions
        session.program = _typed(session, spec)
        tensor = {"name": "input", "datatype": spec.datatype, "shape": [2, 2]}
        request = MESSAGES["ModelInferRequest"]
        values = [1, 0, 1, 1]
        data = request(model_name="tiny", inputs=[tensor | {"contents": {field: values}}])
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(call, place, "ModelInfer", data.SerializeToString())
            session.await_asked()
            session.answer()
            made = MESSAGES["ModelInferResponse"].FromString(answer.result(PATIENCE_S))
        (block,) = made.raw_output_contents
        got = np.frombuffer(block, np.result_type(dtype, np.float32))
        np.testing.assert_array_equal(got, np.array(values) * 2.0)
        if odd is not None:
            data.inputs[0].contents.ClearField(field)
            getattr(data.inputs[0].contents, field).extend([1, 2, 3, odd])
            code, words = refusal(place, data.SerializeToString())
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "numbers that do not fit" in words


def _typed(session: HeldSession, spec: TensorSpec) -> Any:
    """The program of a session as if it took another input."""

    class Program:
        inputs = (spec,)
        outputs = session.program.outputs
        in_flight = session.program.in_flight

    return Program()


def test_what_is_wrong_is_said_with_what_is_allowed(
    place: str, client: triton.InferenceServerClient
) -> None:
    """As the client shows it: shape, name, model, version; and what no client sends."""
    wide, right = np.zeros(7, np.float32), input_of(draw())
    for words, told in (
        (("tiny", [input_of(wide)]), rf"INVALID_ARGUMENT.*'{INPUT.name}' is FP32\[7\], the model"),
        (("tiny", [input_of(draw(), "z")]), r"INVALID_ARGUMENT.*'z' do not fit the model"),
        (("other", [right]), "NOT_FOUND.*'other' is not served; allowed: tiny, twin"),
        (("tiny", [right], "9"), "NOT_FOUND.*'tiny' has no version '9'; allowed: 1"),
    ):
        with pytest.raises(InferenceServerException, match=told):
            client.infer(*words)
    tensor = {"name": INPUT.name, "datatype": "FP32", "shape": INPUT.shape}
    for changes, told in (
        ({"raw_input_contents": [b"abc"]}, "has 3 bytes; FP32[4] takes 16"),
        ({"raw_input_contents": [b""] * 2}, "2 raw_input_contents for 1 inputs"),
        ({}, "has 0 numbers where FP32[4] has them; allowed: 4 fp32_contents, or raw_input_con"),
    ):
        request = MESSAGES["ModelInferRequest"](model_name="tiny", inputs=[tensor], **changes)
        code, words = refusal(place, request.SerializeToString())
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert told in words
    code, words = refusal(place, b"\xff\xff")
    assert (code, words) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "The request is no ModelInferRequest of the protocol.",
    )
    assert refusal(place, b"", "ModelStreamInfer")[0] is grpc.StatusCode.UNIMPLEMENTED
    assert refusal(place, b"x" * 200_000)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    odd = MESSAGES["ModelInferRequest"](model_name="\N{SNOWMAN}" * 5000).SerializeToString()
    assert refusal(place, odd)[0] is grpc.StatusCode.NOT_FOUND


def test_overload_is_turned_away_and_what_was_taken_is_answered() -> None:
    """RESOURCE_EXHAUSTED at once, with the time to wait for clients that repeat by themselves."""
    source = Held(in_flight=1)
    with (
        Front([source], queue=1) as front,
        answering(front) as place,
        triton.InferenceServerClient(place) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        (session,) = source.sessions
        sent = [input_of(np.ones(4, np.float32))]
        taken = [pool.submit(client.infer, "tiny", sent) for _ in range(2)]
        while front.unanswered < 2:
            threading.Event().wait(0.001)
        with pytest.raises(
            InferenceServerException, match=r"RESOURCE_EXHAUSTED.*busy.* allowed: 2"
        ):
            client.infer("tiny", sent)
        assert client.is_server_ready()
        for _ in range(2):
            session.await_asked()
            session.answer()
        for future in taken:
            np.testing.assert_array_equal(future.result().as_numpy("t0"), np.full(4, 2.0))


def test_a_lost_session_is_an_error_and_not_silence() -> None:
    """The model is not ready then; the service lives."""
    source = Held()
    with (
        Front([source], queue=1, retry_s=1e6) as front,
        answering(front) as place,
        triton.InferenceServerClient(place) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.infer, "tiny", [input_of(np.ones(4, np.float32))])
        source.sessions[0].await_asked()
        source.sessions[0].answer(error=RunError("Device 'a' is lost."))
        with pytest.raises(InferenceServerException, match=r"INTERNAL.*Device 'a' is lost"):
            answer.result(PATIENCE_S)
        assert client.is_server_live()
        assert not client.is_server_ready()
        assert not client.is_model_ready("tiny")


def test_a_port_that_is_taken_is_one_line() -> None:
    """It names the flag and the address."""
    with listen_at("127.0.0.1:0") as listener:
        place = place_of(listener)
        with pytest.raises(InputError, match=rf"'{place}' cannot.*Give --grpc another one"):
            GrpcServer(place)
    with pytest.raises(InputError, match="--grpc 'x' is no address"):
        GrpcServer("x")
