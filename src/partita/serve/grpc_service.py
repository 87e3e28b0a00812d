"""The gRPC side: the same models by the Open Inference Protocol's gRPC service."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from partita.errors import BusyError, InputError, NotServedError, PartitaError, RunError, first_line
from partita.program import TensorSpec
from partita.regions import Array
from partita.serve.front import Front, describe_server
from partita.serve.grpc_messages import MESSAGES, SERVICE
from partita.serve.protocol import most_bytes
from partita.serve.served_model import ServedModel
from partita.serve.server import listen_at, place_of
from partita.serve.tensors import (
    Asked,
    Tensor,
    Wanted,
    describe_tensors,
    find_outputs,
    match_inputs,
    read_binary,
    write_binary,
)

_LOG = logging.getLogger(__name__)

#: What each kind of error is here; the first that fits.
_CODES: tuple[tuple[type[PartitaError], grpc.StatusCode], ...] = (
    (NotServedError, grpc.StatusCode.NOT_FOUND),
    (BusyError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (InputError, grpc.StatusCode.INVALID_ARGUMENT),
    (PartitaError, grpc.StatusCode.INTERNAL),
)
#: Where there is no room, clients that repeat calls by themselves wait so long: as in HTTP.
_WAIT = (("grpc-retry-pushback-ms", "1000"),)
#: For calls that get no answer of a model; and the most, whatever may wait. Not tuned.
_SPARE_THREADS, _MOST_THREADS = 8, 1024
#: Seconds for answers on their way once all are there.
_CLOSE_S = 5.0
#: Characters of a reason: it travels in a header, which may have 8 KB of its escaped bytes.
_MOST_REASON = 600
#: Where numbers of a type stand if not as bytes; those of 16 bits are always bytes.
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}

Take = Callable[[Any], dict[str, Any]]


class GrpcServer:
    """Answers gRPC calls for a front; its port is taken from the beginning.

    Args:
        address: ``HOST:PORT``; port 0 is any that is free.

    Raises:
        InputError: It is no address, or cannot be listened at.
    """

    def __init__(self, address: str) -> None:
        self._held = listen_at(address, "--grpc")
        self.place = place_of(self._held)

    @contextlib.contextmanager
    def answering(self, front: Front) -> Iterator[None]:
        """Answer for ``front``, whose models are all there, until the context ends.

        Raises:
            RunError: The port is not to be had any more.
        """
        # Each call that is under way takes a thread; those beyond are turned away as where there
        # is no room.
        limits = sum(model.limit for model in front.models)
        threads = min(_MOST_THREADS, limits + _SPARE_THREADS)
        most = max(most_bytes(model.inputs) for model in front.models)
        options = (("grpc.max_receive_message_length", most), ("grpc.so_reuseport", 0))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="serve/grpc")
        server = grpc.server(pool, options=options, maximum_concurrent_rpcs=threads)
        methods = _Methods(front).handlers()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        self.close()
        try:
            server.add_insecure_port(self.place)
        except RuntimeError as error:
            raise RunError(f"Address '{self.place}' cannot be listened at any more.") from error
        server.start()
        try:
            yield
        finally:
            server.stop(_CLOSE_S).wait()
            pool.shutdown(wait=False)

    def close(self) -> None:
        """Hold the port no longer. May be repeated."""
        self._held.close()


class _Methods:
    """What is answered to each call, as fields of its message."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """What takes the bytes of a call and gives those of its answer, by the call's name."""
        methods: dict[str, Take] = {
            "ServerLive": self._say_live,
            "ServerReady": self._say_ready,
            "ModelReady": self._say_model_ready,
            "ServerMetadata": self._describe_server,
            "ModelMetadata": self._describe_model,
            "ModelInfer": self._infer,
        }
        return {
            name: grpc.unary_unary_rpc_method_handler(_make_handler(name, take))
            for name, take in methods.items()
        }

    def _say_live(self, request: Any) -> dict[str, Any]:
        return {"live": True}

    def _say_ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._front.is_ready}

    def _say_model_ready(self, request: Any) -> dict[str, Any]:
        model = self._front.get(request.name, request.version)
        return {"ready": self._front.is_served(model.name)}

    def _describe_server(self, request: Any) -> dict[str, Any]:
        return describe_server()

    def _describe_model(self, request: Any) -> dict[str, Any]:
        return self._front.get(request.name, request.version).describe()

    def _infer(self, request: Any) -> dict[str, Any]:
        model = self._front.get(request.model_name, request.model_version)
        model.check_room()  # before tensors are read
        asked = _read_request(model, request)
        asking = model.ask(asked.feeds)
        answer = asking.result()
        arrays = [answer[spec.name] for spec, _ in asked.outputs]
        described = describe_tensors([spec for spec, _ in asked.outputs])
        for tensor, array in zip(described, arrays, strict=True):
            tensor["shape"] = array.shape
        named = model.describe_answer(asking)
        marks = named.pop("parameters", {})
        return {
            **named,
            "parameters": [{"key": k, "value": {"bool_param": v}} for k, v in marks.items()],
            "id": asked.id,
            "outputs": described,
            "raw_output_contents": [write_binary(array) for array in arrays],
        }


def _make_handler(name: str, take: Take) -> Callable[[bytes, Any], bytes]:
    """What takes a call's bytes; all errors become codes."""
    asked, given = MESSAGES[f"{name}Request"], MESSAGES[f"{name}Response"]

    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            message: bytes = given(**take(_parse(asked, data))).SerializeToString()
            return message
        except PartitaError as error:
            refusal = error
        except Exception as error:
            _LOG.debug("A call failed.", exc_info=True)
            refusal = RunError(f"Unexpected failure: {first_line(error)}.")
        code = next(code for kind, code in _CODES if isinstance(refusal, kind))
        wait = _WAIT if code is grpc.StatusCode.RESOURCE_EXHAUSTED else ()
        context.set_trailing_metadata(wait)
        context.abort(code, refusal.message[:_MOST_REASON])
        raise AssertionError("An aborted call has ended.")

    return answer


def _parse(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InputError(f"The request is no {kind.DESCRIPTOR.name} of the protocol.") from error


def _read_request(model: ServedModel, request: Any) -> Asked:
    """What a call asks a model for.

    Raises:
        InputError: It does not fit the model.
    """
    wanted = [Wanted(each.name, _read_parameters(each)) for each in request.outputs]
    outputs = find_outputs(_read_parameters(request), wanted, model.outputs)
    tensors = [
        Tensor(each.name, list(each.shape), each.datatype, _read_parameters(each))
        for each in request.inputs
    ]
    specs = [spec for _, spec in match_inputs(tensors, model.inputs)]
    blocks = request.raw_input_contents
    if blocks:
        _check_blocks(request.inputs, blocks, specs)
        feeds = {
            spec.name: read_binary(block, 0, spec)
            for spec, block in zip(specs, blocks, strict=True)
        }
    else:
        given = zip(request.inputs, specs, strict=True)
        feeds = {spec.name: _read_numbers(tensor.contents, spec) for tensor, spec in given}
    return Asked(request.id, feeds, outputs)


def _read_parameters(described: Any) -> dict[str, Any]:
    """Parameters of a request or a tensor; None where one has no value."""
    found = {}
    for parameter in described.parameters:
        value = parameter.value
        choice = value.WhichOneof("parameter_choice")
        found[parameter.key] = None if choice is None else getattr(value, choice)
    return found


def _check_blocks(tensors: Any, blocks: Sequence[bytes], specs: Sequence[TensorSpec]) -> None:
    """Refuse bytes that do not fit the tensors that they are of.

    Raises:
        InputError: Names the tensor.
    """
    if len(blocks) != len(specs) or any(tensor.HasField("contents") for tensor in tensors):
        raise InputError(
            f"The request has {len(blocks)} raw_input_contents for {len(specs)} inputs; allowed:"
            " one for each, and no other contents, or none."
        )
    for spec, block in zip(specs, blocks, strict=True):
        if len(block) != spec.size_bytes:
            raise InputError(
                f"Input '{spec.name}' has {len(block)} bytes; {spec.datatype}{list(spec.shape)}"
                f" takes {spec.size_bytes}.",
                subject=spec.name,
            )


def _read_numbers(contents: Any, spec: TensorSpec) -> Array:
    """The array in a list of numbers.

    Raises:
        InputError: They are not as many, or not such, as the input takes.
    """
    field = _CONTENTS.get(spec.datatype)
    values = [] if field is None else list(getattr(contents, field))
    count = prod(spec.shape)
    if len(values) != count or field is None:
        allowed = f"{count} {field}, or " if field is not None else ""
        raise InputError(
            f"Input '{spec.name}' has {len(values)} numbers where {spec.datatype}"
            f"{list(spec.shape)} has them; allowed: {allowed}raw_input_contents.",
            subject=spec.name,
        )
    try:
        return np.array(values, spec.dtype).reshape(spec.shape)
    except OverflowError as error:
        raise InputError(
            f"Input '{spec.name}' has numbers that do not fit {spec.datatype}:"
            f" {first_line(error)}.",
            subject=spec.name,
        ) from error
