"""The HTTP side: paths of the Open Inference Protocol v2, and errors as it words them.

Beside the protocol itself there are its extensions for binary tensors and, to list models and to
deploy new versions, for model repositories.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from partita.errors import BusyError, InputError, NotServedError, PartitaError, first_line
from partita.serve.front import Front, describe_server
from partita.serve.protocol import HEAD_LENGTH, most_bytes, read_request, write_answer
from partita.serve.served_model import ServedModel

_LOG = logging.getLogger(__name__)

#: Longest wait for the body of a request, so that a client that stalls holds nothing for long.
_BODY_S = 60.0
#: Of an order to load a model, which says nothing more.
_MOST_ORDER_BYTES = 65_536
#: What a client is asked to wait where there is no room: the least that the header can say.
_RETRY_AFTER = {"Retry-After": "1"}

Handler = Callable[[Request], Awaitable[Response]]


def make_app(front: Front, more: Sequence[BaseRoute] = ()) -> Starlette:
    """The application that answers for ``front``.

    Args:
        more: Further routes.
    """
    paths = _Paths(front)
    model = "/v2/models/{name}"
    versions = (model, model + "/versions/{version}")
    routes = [
        _route("/v2", paths.describe_server),
        _route("/v2/health/live", paths.say_live),
        _route("/v2/health/ready", paths.say_ready),
        *(_route(path, paths.describe_model) for path in versions),
        *(_route(path + "/ready", paths.say_model_ready) for path in versions),
        *(_route(path + "/infer", paths.infer, "POST") for path in versions),
        _route("/v2/repository/index", paths.list_models, "POST"),
        _route("/v2/repository/models/{name}/load", paths.load, "POST"),
    ]
    handlers = {HTTPException: _refuse}
    return Starlette(routes=[*routes, *more], exception_handlers=handlers)


class _Paths:
    """What is answered at each path."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def describe_server(self, request: Request) -> Response:
        return _answer(describe_server("binary_tensor_data", "model_repository"))

    async def say_live(self, request: Request) -> Response:
        return _answer({"live": True})

    async def say_ready(self, request: Request) -> Response:
        is_ready = self._front.is_ready
        return _answer({"ready": is_ready}, 200 if is_ready else 503)

    async def describe_model(self, request: Request) -> Response:
        return _answer(self._find(request).describe())

    async def say_model_ready(self, request: Request) -> Response:
        model = self._find(request)
        is_ready = self._front.is_served(model.name)
        return _answer({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    async def infer(self, request: Request) -> Response:
        model = self._find(request)
        model.check_room()  # before the body is read
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "Bodies are taken as they are: leave out Content-Encoding.")
        body = await _read_body(request, most_bytes(model.inputs))
        model = self._find(request)  # another version may have come meanwhile
        head_length = request.headers.get(HEAD_LENGTH, "")
        asked = read_request(model.inputs, model.outputs, body, head_length)
        asking = model.ask(asked.feeds)
        answer = await asyncio.wrap_future(asking)
        content, head_bytes = write_answer(model.describe_answer(asking), asked, answer)
        if head_bytes is None:
            return Response(content, media_type="application/json")
        headers = {HEAD_LENGTH: str(head_bytes)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def list_models(self, request: Request) -> Response:
        return _answer([_describe_state(model) for model in self._front.models])

    async def load(self, request: Request) -> Response:
        name = self._find(request).name
        if await _read_body(request, _MOST_ORDER_BYTES) not in (b"", b"{}"):
            raise InputError(
                f"Model '{name}' is deployed from its own file: a load takes no parameters."
            )
        model = await asyncio.to_thread(self._front.load, name)
        return _answer({"name": model.name, "version": model.version})

    def _find(self, request: Request) -> ServedModel:
        return self._front.get(*(request.path_params.get(key, "") for key in ("name", "version")))


def _describe_state(model: ServedModel) -> dict[str, str]:
    reason = "" if model.error is None else model.error.message
    state = "UNAVAILABLE" if reason else "READY"
    return {"name": model.name, "version": model.version, "state": state, "reason": reason}


async def _read_body(request: Request, most: int) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: It has more than ``most`` bytes, or does not come in time.
    """
    told = request.headers.get("content-length", "0")
    size, chunks = 0, []
    try:
        async with asyncio.timeout(_BODY_S):
            if int(told) <= most:
                async for chunk in request.stream():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > most:
                        break
    except TimeoutError:
        raise HTTPException(408, f"The body did not come within {_BODY_S:g} s.") from None
    if max(size, int(told)) > most:
        raise HTTPException(413, f"The body is too large; allowed: {most} bytes.")
    return b"".join(chunks)


def _answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode(content)
    return Response(body, status, headers=headers, media_type="application/json")


def _route(path: str, handler: Handler, method: str = "GET") -> Route:
    """A route whose errors are said as the protocol has it."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except HTTPException:
            raise
        except BusyError as error:
            return _answer({"error": error.message}, 503, _RETRY_AFTER)
        except NotServedError as error:
            return _answer({"error": error.message}, 404)
        except InputError as error:
            return _answer({"error": error.message}, 400)
        except PartitaError as error:
            return _answer({"error": error.message}, 500)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            _LOG.debug("A request failed.", exc_info=True)
            return _answer({"error": f"Unexpected failure: {first_line(error)}."}, 500)

    return Route(path, answer, methods=[method])


def _refuse(request: Request, error: Exception) -> Response:
    """What is said where there is no such path or method, or no such model."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return _answer({"error": error.detail}, error.status_code, headers)
