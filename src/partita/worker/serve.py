"""The worker as a process, from its options to its end."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psutil

from partita.engine import EndpointEngine, Engine, OrtEngine, Slowdown, SlowedEngine
from partita.engine.base import CPU
from partita.errors import ClusterError, PartitaError
from partita.execution import Link
from partita.fabric import (
    Endpoint,
    ShapedEndpoint,
    ZenohEndpoint,
    ZenohOptions,
    check_network,
    find_misnamed,
)
from partita.fabric.refusals import hear_refusals
from partita.fabric.zenoh_endpoint import find_mute, find_owner
from partita.memory import private_bytes, release, tune_malloc
from partita.version import VERSION
from partita.worker.control import MAX_LANES, MAX_PLANS, Worker, WorkerParts
from partita.worker.messages import PROTOCOL_VERSION
from partita.worker.rejoin import JoinWatch, MembershipWatch, await_change
from partita.worker.store import DEFAULT_QUOTA_BYTES, Store, default_store_dir

_LOG = logging.getLogger(__name__)

#: A step of 1 ms then takes 10 s, about what a deadline of 30 s still allows.
MAX_SLOW_DOWN = 10_000
#: A step under way, and each of a few lanes and sockets, may take its second to end.
_END_S = 5.0
#: Of the machine's memory for weights; the rest is for pieces, the engine and the system.
_MEMORY_SHARE = 0.8
#: glibc's M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD (the largest it takes): freed memory
#: stays in the process, so that large messages do not pay page faults each time. M_ARENA_MAX: one
#: heap for all threads, as only the first one's end can be given back: with a heap for each
#: load and measurement, a plan held 60 MB after one of ResNet-50, 14 MB with this, 8 MB alone.
_MALLOPT = {-1: 2**30, -2: 2**26, -3: 2**25, -8: 1}


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker process.

    Attributes:
        network: Name, addresses and credentials.
        store: Directory of the content store; in the user's cache by default.
        quota_bytes: Most bytes that the store may hold.
        memory_limit_bytes: Most bytes of weights, and of what a loaded plan holds beyond the idle
            worker; 0 means four fifths of the machine's memory.
        threads: Intra-op threads of a fragment; 0 means one per core.
        providers: ONNX Runtime's execution providers, the preferred first.
        loaders: Most fragments that load at the same time.
        max_plans: Most plans that are prepared at the same time.
        max_lanes: Most threads that their steps run on.
        slow_down: Emulated slowness, at least 1.
        endpoint: Where a model is served that computes in this worker's place; empty for none.
        join: The join file that ``network`` is from, which is looked at again; empty for none.
        links: Emulated links by target; None for real ones.
        version: Package version to announce.
        protocol: Protocol version to announce.
    """

    network: ZenohOptions
    store: str = ""
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    memory_limit_bytes: int = 0
    threads: int = 0
    providers: tuple[str, ...] = (CPU,)
    loaders: int = 1
    max_plans: int = MAX_PLANS
    max_lanes: int = MAX_LANES
    slow_down: float = 1.0
    endpoint: str = ""
    join: str = ""
    links: dict[str, Link] | None = None
    version: str = field(default=VERSION)
    protocol: int = PROTOCOL_VERSION


def run_worker(
    options: WorkerOptions,
    *,
    parent: int | None = None,
    on_ready: Callable[[Worker], None] = lambda worker: None,
) -> None:
    """Be a worker until SIGTERM, SIGINT, a leader's ``stop``, or the end of ``parent``.

    Args:
        options: Who the worker is and what it may use.
        parent: Descriptor of a pipe from the parent process; when it closes, the worker ends.
        on_ready: Called once the worker is visible.

    Raises:
        ClusterError: The addresses are exposed without credentials, or the options are wrong.
        RunError: The network cannot be joined.
    """
    tune_memory()
    ended, left = threading.Event(), threading.Event()
    threading.Thread(target=end_in_time, args=(ended, left), name="end", daemon=True).start()
    if parent is not None:
        _watch_parent(parent, ended)
    try:
        with heed_signals(ended), contextlib.ExitStack() as stack:
            check_network(options.network)
            if options.network.members:
                stack.enter_context(hear_refusals(find_owner))
            _warn_of_names(options.network)
            network: ZenohOptions | None = options.network
            while network is not None:
                now = replace(options, network=network)
                parts = make_parts(now)  # before the network, so that errors in them come at once
                network = _serve(now, parts, ended, on_ready)
    finally:
        ended.set()
        left.set()


def _serve(
    options: WorkerOptions,
    parts: WorkerParts,
    ended: threading.Event,
    on_ready: Callable[[Worker], None],
) -> ZenohOptions | None:
    """Be a worker until ``ended``, which is also set when one fails to start.

    Returns:
        How to join anew, where a join file says so first.
    """
    endpoint = _open_endpoint(options)
    try:
        release()
        alone = replace(parts, idle_bytes=private_bytes())
        worker = Worker(endpoint, alone, on_stop=ended.set)
        try:
            worker.start()
            places = ", ".join(options.network.listen)
            _LOG.info("worker '%s' listens on %s", worker.name, places)
            on_ready(worker)
            membership = MembershipWatch(find_mute)
            return await_change(_watch_join(options, worker), ended, membership.look)
        except BaseException:
            ended.set()
            raise
        finally:
            worker.close()
    finally:
        endpoint.close()


def _watch_join(options: WorkerOptions, worker: Worker) -> JoinWatch | None:
    """What looks at the join file, if there is one."""
    if not options.join:
        return None
    shut_out = worker.endpoint.shut_out
    return JoinWatch(Path(options.join), options.network, lambda: worker.is_idle, shut_out)


def _warn_of_names(network: ZenohOptions) -> None:
    for address in find_misnamed(network):
        _LOG.warning(
            "certificate '%s' has no name for the host of %s: others refuse this worker unless they"
            " reach it at an address whose host is in the certificate (subjectAltName)",
            network.tls.certificate if network.tls else "",
            address,
        )


@contextlib.contextmanager
def heed_signals(ended: threading.Event, who: str = "worker") -> Iterator[None]:
    """Set ``ended`` at SIGTERM and SIGINT whatever the main thread does, which must call this.

    Python's own handlers wait for the main thread, which a network that is gone may hold up.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)

    def await_signal() -> None:
        while number := os.read(read, 1):  # further ones hurry nobody, but want a reader
            if not ended.is_set():
                _LOG.info("%s: the %s ends", signal.Signals(number[0]).name, who)
            ended.set()
        os.close(read)

    old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the thread has it, from the pipe
    threading.Thread(target=await_signal, name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old)
        os.close(write)


def end_in_time(ended: threading.Event, left: threading.Event) -> None:
    """End this process where it hangs: leaving a dead network in order may take minutes.

    Args:
        ended: Set when the worker is to end.
        left: Set when it has; then only threads that hold up the interpreter's exit count.
    """
    ended.wait()
    if left.wait(_END_S):
        threading.main_thread().join()
        time.sleep(_END_S)
    _LOG.error("the worker ended without leaving the network in order")
    os._exit(1)


def make_parts(options: WorkerOptions) -> WorkerParts:
    """The engine, store and limits of a worker with these options.

    Raises:
        ClusterError: The slow-down or the endpoint is not allowed, or the store cannot be used.
    """
    if not 1 <= options.slow_down <= MAX_SLOW_DOWN:
        raise ClusterError(
            f"Worker {options.network.name!r} has --slow-down {options.slow_down:g}: it must be "
            f"at least 1 and at most {MAX_SLOW_DOWN}.",
            subject="slow_down",
        )
    if options.endpoint and options.slow_down > 1:
        raise ClusterError(
            f"Worker {options.network.name!r} has --endpoint and --slow-down: what is served"
            " elsewhere is not emulated here. Leave out one.",
            subject="slow_down",
        )
    slow_down = Slowdown(options.slow_down)
    threads = options.threads or os.cpu_count() or 1
    local = OrtEngine(threads, options.providers)
    engine: Engine = local
    if options.endpoint:
        engine = EndpointEngine(options.endpoint, local)
    elif options.slow_down > 1:
        engine = SlowedEngine(local, slow_down, local.timer)
    limit = options.memory_limit_bytes or int(_MEMORY_SHARE * psutil.virtual_memory().total)
    return WorkerParts(
        engine=engine,
        store=_open_store(options),
        slow_down=slow_down,
        memory_limit_bytes=limit,
        threads=threads,
        providers=(options.endpoint,) if options.endpoint else local.providers,
        fallback=local.fallback,
        loaders=options.loaders,
        max_plans=options.max_plans,
        max_lanes=options.max_lanes,
        version=options.version,
        protocol=options.protocol,
    )


def _open_store(options: WorkerOptions) -> Store:
    """The store; a file was written there to be sure."""
    try:
        root = Path(options.store) if options.store else default_store_dir()
        store = Store(root, options.quota_bytes, owner=options.network.name)
        with tempfile.TemporaryFile(dir=root):
            return store
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ClusterError(
            f"--store {options.store or 'of the user'!r} cannot be used: {reason}. Allowed is a "
            "folder that can be made and written.",
            subject="--store",
        ) from error


def tune_memory() -> None:
    """Keep freed memory in the process, where the C library can."""
    tune_malloc(_MALLOPT)


def read_options(line: bytes) -> WorkerOptions:
    """The options in one line of JSON, as the lab writes them.

    Raises:
        ClusterError: The line is malformed.
    """
    try:
        return msgspec.json.decode(line, type=WorkerOptions)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"Worker options are malformed: {error}.", subject="options") from None


def _open_endpoint(options: WorkerOptions) -> Endpoint:
    inner = ZenohEndpoint(options.network)
    if options.links is None:
        return inner
    return ShapedEndpoint(inner, options.links)


def _watch_parent(parent: int, ended: threading.Event) -> None:
    def await_end() -> None:
        while os.read(parent, 4096):
            continue
        ended.set()

    threading.Thread(target=await_end, name="parent", daemon=True).start()


def main() -> int:
    """Run the worker whose options stand in the first line of standard input."""
    try:
        options = read_options(sys.stdin.buffer.readline())
        run_worker(options, parent=sys.stdin.fileno())
    except PartitaError as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    return 0
