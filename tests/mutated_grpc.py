"""Damaged gRPC calls to a front: their bytes, and the fields of their messages."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import grpc
import numpy as np

from partita.errors import InputError
from partita.serve import Front
from partita.serve.grpc_messages import MESSAGES, SERVICE
from partita.serve.grpc_service import GrpcServer
from tests.mutations import ODD_VALUES, Outcome, judge, mutate_bytes
from tests.serve.fronts import tiny_front
from tests.worker.tiny import expected_chain, tiny_chain

#: A front that says nothing for so long hangs.
_HANG_S = 20.0
_CLIENTS = 8

_CHAIN = tiny_chain(2, 2).program
_ARRAY = np.arange(4, dtype=np.float32)
_TENSOR = {"name": _CHAIN.inputs[0].name, "datatype": "FP32", "shape": _ARRAY.shape}
_NUMBERS = {"fp32_contents": _ARRAY.tolist()}
_FLAG = {"key": "binary_data", "value": {"bool_param": True}}
_OUTPUT = {"name": _CHAIN.outputs[0].name, "parameters": [_FLAG]}
_GOOD: dict[str, list[dict[str, Any]]] = {
    "ModelInfer": [
        {"model_name": "tiny", "inputs": [_TENSOR], "raw_input_contents": [_ARRAY.tobytes()]},
        {"model_name": "tiny", "inputs": [_TENSOR | {"contents": _NUMBERS}], "id": "1"},
        {
            "model_name": "tiny",
            "model_version": "1",
            "inputs": [_TENSOR | {"parameters": [_FLAG]}],
            "outputs": [_OUTPUT],
            "parameters": [_FLAG],
            "raw_input_contents": [_ARRAY.tobytes()],
        },
    ],
    "ModelMetadata": [{"name": "tiny", "version": "1"}],
    "ModelReady": [{"name": "tiny"}],
    "ServerMetadata": [{}],
}
#: Refusals that say what is wrong with the call, or that there is no room for it.
_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


def try_grpc(rng: Random, count: int, outcome: Outcome) -> None:
    """Calls to a front; afterwards it holds nothing and answers a good one."""
    for start in range(0, count, 500):
        damaged = [_damage(rng) for _ in range(min(500, count - start))]
        with (
            tiny_front() as front,
            contextlib.closing(GrpcServer("127.0.0.1:0")) as server,
            server.answering(front),
            grpc.insecure_channel(server.place) as channel,
            ThreadPoolExecutor(_CLIENTS) as pool,
        ):
            futures = [pool.submit(_call, channel, method, data) for method, data in damaged]
            for (_, data), future in zip(damaged, futures, strict=True):
                judge(outcome, future.result, data)
            good = MESSAGES["ModelInferRequest"](**_GOOD["ModelInfer"][0]).SerializeToString()
            judge(outcome, partial(_check_good, channel, good, front), good)


def _damage(rng: Random) -> tuple[str, bytes]:
    """A method and the bytes of a call, some of which were changed."""
    method = rng.choice(("ModelInfer", "ModelInfer", "ModelInfer", *_GOOD))
    message = MESSAGES[f"{method}Request"](**rng.choice(_GOOD[method]))
    how = rng.choice(("bytes", "bytes", "fields", "method"))
    if how == "fields":
        for _ in range(rng.randint(1, 3)):
            _change_field(message, rng)
    data: bytes = message.SerializeToString()
    if how == "method":
        return rng.choice((*_GOOD, "ModelStreamInfer", "RepositoryIndex", "", "x/y")), data
    return method, mutate_bytes(data, rng) if how == "bytes" else data


def _change_field(message: Any, rng: Random) -> None:
    """Change a field of a message, or of one in it: remove, double or replace it."""
    while inner := [value for value in _messages_in(message) if rng.random() < 0.5]:
        message = rng.choice(inner)
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    field = rng.choice(fields)
    value = rng.choice((*ODD_VALUES, b"", b"\0" * 16, "FP64", "INT8", "tiny", 4, 2**40))
    how = rng.randrange(3)
    if how == 0:
        message.ClearField(field.name)
    elif how == 1 and field.is_repeated:
        values = getattr(message, field.name)
        values.extend(list(values)[:1])
    else:
        with contextlib.suppress(TypeError, ValueError, AttributeError):  # it holds no such value
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


def _messages_in(message: Any) -> list[Any]:
    """The messages that the fields of one hold."""
    found = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            found += list(value) if field.is_repeated else [value]
    return found


def _call(channel: grpc.Channel, method: str, data: bytes) -> None:
    """Answered, or refused in one line.

    Raises:
        InputError: It is refused.
        RuntimeError: It has an error that says nothing, or no answer.
    """
    try:
        channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=_HANG_S)
    except grpc.RpcError as error:
        if error.code() not in _REFUSALS:
            raise RuntimeError(f"{error.code()}: {error.details()}") from None
        raise InputError(error.details()) from None


def _check_good(channel: grpc.Channel, data: bytes, front: Front) -> None:
    answer = channel.unary_unary(f"/{SERVICE}/ModelInfer")(data, timeout=_HANG_S)
    (block,) = MESSAGES["ModelInferResponse"].FromString(answer).raw_output_contents
    right = expected_chain(_CHAIN, _ARRAY).ravel().tolist()
    if np.frombuffer(block, np.float32).tolist() != right or front.unanswered:
        raise RuntimeError(f"after it {front.unanswered} are unanswered, a good one is wrong")
