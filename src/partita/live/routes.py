"""The live page and the metrics over HTTP: routes to mount, or a server of their own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from partita.errors import InputError, RunError
from partita.live.metrics import write_metrics
from partita.live.page import POLICY, describe_scene, write_list, write_live_page
from partita.live.snapshot import Snapshot
from partita.live.view import LiveView

#: Where the page is served alone; its names keep scripts of other sites from asking.
_HOST, _NAMES = "127.0.0.1", ["127.0.0.1", "localhost"]
_END_S = 2.0
#: The version of Prometheus' text format.
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def served_routes(views: Mapping[str, LiveView]) -> list[BaseRoute]:
    """A page for each model at ``/live/NAME/``, a list of them, and the metrics of all.

    Args:
        views: By the names of models, which are those of paths, too.
    """

    def pages(request: Request) -> Response:
        with ThreadPoolExecutor(len(views), "live-list") as pool:  # one that hangs holds up none
            models = dict(zip(views, pool.map(_look, views.values()), strict=True))
        return HTMLResponse(write_list(models), headers={"Content-Security-Policy": POLICY})

    def metrics(request: Request) -> Response:
        takes = {name: view.snapshot for name, view in views.items()}
        return _answer(lambda: write_metrics(takes), _METRICS_TYPE)

    mounts = (Mount(f"/live/{name}", routes=live_routes(view)) for name, view in views.items())
    return [Route("/live/", pages), *mounts, Route("/metrics", metrics)]


def live_routes(view: LiveView) -> list[Route]:
    """The page at ``/`` and what it asks for; all may be mounted anywhere."""

    def page(request: Request) -> Response:
        text, policy = write_live_page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    def snapshot(request: Request) -> Response:
        return _answer(lambda: msgspec.json.encode(view.snapshot()), "application/json")

    def plan(request: Request) -> Response:
        return _answer(
            lambda: msgspec.json.encode(describe_scene(view.scene())), "application/json"
        )

    return [Route("/", page), Route("/live.json", snapshot), Route("/plan.json", plan)]


def _look(view: LiveView) -> Snapshot | str:
    """What a session does now, or why it does not say."""
    try:
        return view.snapshot()
    except RunError as error:
        return error.message


def _answer(make: Callable[[], bytes], media_type: str) -> Response:
    """What is made, or why it cannot be: the session is over, say."""
    try:
        return Response(make(), media_type=media_type, headers={"Cache-Control": "no-store"})
    except RunError as error:
        return Response(error.message, status_code=503, media_type="text/plain")


@contextlib.contextmanager
def serve_live(view: LiveView, port: int, name: str = "") -> Iterator[str]:
    """Serve the page, and ``/metrics``, on this machine alone; yield its address.

    Args:
        port: 0 lets the system choose.
        name: Of the model, for the metrics.

    Raises:
        InputError: The port is taken.
    """
    routes = [*live_routes(view), *served_routes({name or "model": view})]
    with serve_routes(routes, port) as address:
        yield address


@contextlib.contextmanager
def serve_routes(routes: Sequence[BaseRoute], port: int) -> Iterator[str]:
    """Serve some routes on this machine alone; yield their address.

    Raises:
        InputError: The port is taken.
    """
    with bind_page(port) as listening:
        middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=_NAMES)]
        config = uvicorn.Config(
            Starlette(routes=routes, middleware=middleware),
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=server.run, args=([listening],), name="live-page", daemon=True
        )
        thread.start()
        try:
            yield f"http://{_HOST}:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(_END_S)


def bind_page(port: int) -> socket.socket:
    """A socket of this machine alone, at which a page may be served; 0 is any port that is free.

    Raises:
        InputError: The port is taken.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
        listening.listen()  # who asks before the server runs waits for it
    except OSError as error:
        listening.close()
        raise InputError(
            f"Port {port} of {_HOST} cannot be used for the page: {error.strerror}. Give another,"
            " or 0 for one that is free.",
            subject=str(port),
        ) from error
    return listening
