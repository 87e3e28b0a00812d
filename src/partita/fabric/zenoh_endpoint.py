"""The filling for real networks: Eclipse Zenoh, peer to peer."""

from __future__ import annotations

import atexit
import ctypes
import logging
import math
import os
import threading
import time
import uuid
import weakref
from functools import partial
from typing import Any

import msgspec
import zenoh

from partita.errors import LinkError, RunError
from partita.fabric.awake import AwakeClock
from partita.fabric.base import (
    CallHandler,
    DataCallback,
    ErrorCallback,
    IsOut,
    NoteCallback,
    Payload,
    WatchCallback,
    check_process,
    closed,
    is_forked,
    unreachable,
)
from partita.fabric.callbacks import ignore_error, run_guarded
from partita.fabric.flows import Ack, AckRequest, Ping, Pong, Signal
from partita.fabric.presence import Presence
from partita.fabric.socket_options import settle_sockets
from partita.fabric.zenoh_control import ControlPlane
from partita.fabric.zenoh_data import DataHooks, DataPlane
from partita.fabric.zenoh_options import ZenohOptions, check_network, control_address
from partita.host import boot_id, namespace

_LOG = logging.getLogger(__name__)

#: One acknowledgement for all pieces of a tick: 20 notes a second at most.
_TICK_S = 0.05
_INFO, _HOST, _NAMESAKES = "partita.info", "partita.host", "partita.namesakes"
_HOST_TIMEOUT_S = 2.0
_signals: msgspec.msgpack.Decoder[Signal] = msgspec.msgpack.Decoder(Signal)


_open_endpoints: weakref.WeakSet[ZenohEndpoint] = weakref.WeakSet()


def _keep_in_fork() -> None:
    """Let a fork never free what its parent opened: Zenoh's threads, which would, are not there.

    Zenoh also waits for them when the process exits; this handler runs before it and ends the fork.
    """
    for endpoint in _open_endpoints:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(endpoint))
    libc = ctypes.CDLL(None)
    if _open_endpoints and hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_in_fork)


class ZenohEndpoint:
    """One device on a Zenoh network; see :class:`partita.fabric.Endpoint`.

    Pieces and control travel in two sessions with connections of their own, so that a call answers
    in milliseconds while tensors fill the link.

    Raises:
        ClusterError: The addresses are malformed or exposed without credentials.
        RunError: The session cannot be opened, for instance because the port is taken.
    """

    def __init__(self, options: ZenohOptions) -> None:
        check_network(options)
        self.name = options.name
        self._options = options
        self._incarnation = uuid.uuid4().hex
        self._info = b""
        self._is_visible = False
        self._data: DataCallback | None = None
        self._note: NoteCallback | None = None
        self._error: ErrorCallback = ignore_error
        self._is_closed = False
        self._process = os.getpid()
        self._close_lock = threading.Lock()
        self._delivering = threading.Lock()
        self._wake = threading.Event()
        self._presence = Presence(4 * options.heartbeat_s)
        #: Ticks are its own pings, which come behind what the others answered before.
        self._awake = AwakeClock(2 * options.heartbeat_s, time.monotonic())
        self._is_out: IsOut = lambda name: False  # others are seen before the control plane is open
        self._open()
        self._keeper = threading.Thread(
            target=self._keep, name=f"partita-{self.name}-keeper", daemon=True
        )
        self._keeper.start()
        _open_endpoints.add(self)
        atexit.register(self.close)  # a process that forgets to close must not hang in Zenoh

    def _open(self) -> None:
        hooks = DataHooks(
            self._deliver, self._fail, self._signal, self._local_address, self._wake.set
        )
        listen = list(self._options.listen)
        try:
            self._plane = DataPlane(self._options, hooks)
            listen = [f"{control_address(data)} (control, one above data)" for data in listen]
            self._control = ControlPlane(
                self._options,
                self._take_note,
                self._take_presence,
                self._reject,
                lambda name: self._is_out(name),
            )
        except Exception as error:  # Zenoh's own error type covers configuration and sockets
            reason = str(error).splitlines()[0].split(": [")[0].split(" at /")[0]
            raise RunError(
                f"Device {self.name!r} cannot join the network: {reason}. Is the port free, and "
                f"are the addresses right? Asked for: {', '.join(listen) or 'none'}.",
                device=self.name,
            ) from None
        own = self._control.serve_own
        own(_INFO, lambda caller, body: self._info)
        own(_NAMESAKES, lambda caller, body: self._list_namesakes(body.decode(errors="replace")))
        own(_HOST, lambda caller, body: host_identity() + self._plane.admit(caller.name))

    def _list_namesakes(self, name: str) -> bytes:
        return " ".join(self._control.incarnations(name)).encode()

    def announce(self, info: bytes) -> None:
        """Make this endpoint visible; see :meth:`partita.fabric.Endpoint.announce`."""
        self._check_open()
        self._info = info
        if not self._is_visible:
            self._check_unique()
            self._control.appear(self._incarnation)
            self._is_visible = True

    def _check_unique(self) -> None:
        """Refuse to appear beside another process of the name, of which the others would hear.

        A process that was killed is seen until its lease is over, which is waited for.
        """
        deadline_s = time.monotonic() + 2 * self._options.lease_s
        while witness := next((p for p in sorted(self.peers()) if self._is_taken(p)), None):
            if time.monotonic() > deadline_s:
                raise RunError(
                    f"Device name {self.name!r} is taken: {witness!r} hears of another process of "
                    f"this name in cluster {self._options.cluster!r}. End that one, or choose "
                    "another name.",
                    device=self.name,
                )
            time.sleep(_TICK_S)

    def _is_taken(self, peer: str) -> bool:
        """Whether a peer hears of another process of this name; one that does not answer, not."""
        try:
            answer = self._control.call(peer, _NAMESAKES, self.name.encode(), _HOST_TIMEOUT_S)
        except RunError:
            return False
        return bool(set(answer.decode(errors="replace").split()) - {self._incarnation})

    def send(self, target: str, header: bytes, payload: Payload) -> None:
        """Send one piece; see :meth:`partita.fabric.Endpoint.send`."""
        self._check_open()
        self._check_in(target)
        self._plane.send(target, header, payload)

    def on_data(self, callback: DataCallback) -> None:
        """Set the callback for pieces; senders wait until it is set."""
        self._data = callback
        self._plane.listen()

    def call(self, target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        """``target``'s answer; see :meth:`partita.fabric.Endpoint.call`."""
        self._check_open()
        self._check_in(target)
        return self._control.call(target, method, body, timeout_s)

    def serve(self, handler: CallHandler) -> None:
        """Answer calls with ``handler``; see :meth:`partita.fabric.Endpoint.serve`."""
        self._control.serve(handler)

    def notify(self, target: str, body: bytes) -> None:
        """Send one note; see :meth:`partita.fabric.Endpoint.notify`."""
        self._check_open()
        if not self._is_out(target):
            self._control.notify(target, body)

    def on_notify(self, callback: NoteCallback) -> None:
        """Set the callback for notes."""
        self._note = callback

    def info(self, target: str, timeout_s: float = 2.0) -> bytes:
        """The announcement of ``target``; see :meth:`partita.fabric.Endpoint.info`."""
        return self.call(target, _INFO, b"", timeout_s)

    def watch(self, callback: WatchCallback) -> None:
        """Report comings and goings; see :meth:`partita.fabric.Endpoint.watch`."""
        self._presence.watch(callback, self._awake_s)
        self._wake.set()

    def peers(self) -> set[str]:
        """The names of the other endpoints that are alive now."""
        return self._presence.alive()

    def shut_out(self, is_out: IsOut) -> None:
        """Have nothing more to do with some; see :meth:`partita.fabric.Endpoint.shut_out`."""
        self._is_out = is_out
        for name in filter(is_out, self._control.names()):
            self._lose(name)
            self._control.abandon_calls(name)

    def mute(self) -> set[str]:
        """Members that are workers, are connected, and do not let this endpoint know of them."""
        owners = {str(link.auth_identifier) for link in self.links()}
        workers = {m.name for m in self._options.members if m.is_worker and m.subject in owners}
        mute = workers - self.peers() - {self.name}
        return {name for name in mute if not self._is_out(name)}

    def on_error(self, callback: ErrorCallback) -> None:
        """Set the callback for faults."""
        self._error = callback

    def links(self) -> list[Any]:
        """The connections of both sessions, as Zenoh describes them; none once it is closed."""
        try:
            return [*self._plane.links(), *self._control.links()]
        except zenoh.ZError:
            return []

    def close(self) -> None:
        """Leave the network; see :meth:`partita.fabric.Endpoint.close`."""
        if is_forked(self._process):
            return  # the connections are the parent's
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
        atexit.unregister(self.close)
        self._wake.set()
        self._keeper.join(timeout=5)
        self._control.close()
        self._plane.close()

    def _check_open(self) -> None:
        check_process(self._process, f"Endpoint {self.name!r}")
        if self._is_closed:
            raise closed(self.name)

    def _check_in(self, target: str) -> None:
        if self._is_out(target):
            raise unreachable(target, self.peers())

    def _deliver(self, source: str, header: bytes, payload: memoryview) -> None:
        callback = self._data
        if callback is not None and not self._is_out(source):
            with self._delivering:
                run_guarded(partial(callback, source, header, payload), self._error, self.name)

    def _fail(self, error: RunError) -> None:
        self._error(error)

    def _reject(self, reason: str) -> None:
        self._error(RunError(f"Frame to {self.name!r} rejected: {reason}.", device=self.name))

    def _signal(self, target: str, signal: Signal) -> None:
        try:
            self._control.notify(target, msgspec.msgpack.encode(signal), is_signal=True)
        except LinkError:
            return  # it is asked for again, and whoever is gone is seen to be

    def _local_address(self, target: str) -> bytes | None:
        """Where ``target`` listens on this host; None where it is on another."""
        own = host_identity()
        try:
            answer = self.call(target, _HOST, b"", _HOST_TIMEOUT_S)
        except RunError:
            return None
        address = answer[len(own) :]
        return address if answer.startswith(own) and address else None

    def _take_note(self, source: str, is_signal: bool, body: bytes) -> None:
        if self._is_out(source):
            return
        if not is_signal:
            note = self._note
            if note is not None:
                run_guarded(lambda: note(source, body), self._error, self.name)
            return
        try:
            signal = _signals.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._reject(f"signal of {source!r}: {error}")
            return
        if isinstance(signal, Ack | AckRequest):
            self._plane.take_signal(source, signal)
        elif isinstance(signal, Ping) and source == self.name:
            self._awake.tick(time.monotonic())
        elif isinstance(signal, Ping):
            self._signal(source, Pong())
        elif isinstance(signal, Pong):
            self._tell(self._presence.heard(source, self._awake_s))

    def _take_presence(self, name: str, is_there: bool) -> None:
        if not is_there:
            self._lose(name)
        elif not self._is_out(name):
            self._tell(self._presence.seen(name, True, self._awake_s))

    def _lose(self, name: str) -> None:
        """Drop what is under way to and from a peer that is gone, and tell of it."""
        self._plane.drop(name)
        self._plane.forget(name)
        self._tell(self._presence.seen(name, False, self._awake_s))

    @property
    def _awake_s(self) -> float:
        return self._awake.read(time.monotonic())

    def _tell(self, jobs: list[tuple[WatchCallback, str, bool]]) -> None:
        for watch, name, is_alive in jobs:
            run_guarded(partial(watch, name, is_alive), self._error, self.name)

    def _keep(self) -> None:
        """Acknowledge, resend and ask after the peers until the endpoint closes."""
        ping_s, alone_s = 0.0, time.monotonic()
        busy = False
        while not self._is_closed:
            watching = self._presence.is_watched
            wait_s = _TICK_S if busy else self._options.heartbeat_s if watching else None
            if self._wake.wait(wait_s) and not self._is_closed:
                time.sleep(_TICK_S)  # gather: one acknowledgement for all pieces of a tick
            self._wake.clear()
            now_s = time.monotonic()
            busy = self._plane.tick(now_s)
            if self._presence.is_watched and now_s - ping_s >= self._options.heartbeat_s:
                if not self._is_visible:  # answers find who is announced
                    self._presence.excuse(self._awake_s)
                ping_s = now_s
                alone_s = self._heed_namesakes(alone_s, now_s)
                settle_sockets(2 * self._options.lease_s)
                for name in (self.name, *self._presence.to_ask()):
                    self._signal(name, Ping())
                self._tell(self._presence.find_hung(self._awake_s))

    def _heed_namesakes(self, alone_s: float, now_s: float) -> float:
        """When this process last had its name alone; once that is a while ago, it is logged.

        Who appears first, or before it hears of the other, is not refused by :meth:`announce`.
        """
        others = self._control.incarnations(self.name) - {self._incarnation}
        if not others or not self._is_visible:
            return now_s
        if now_s - alone_s > 2 * self._options.lease_s:
            _LOG.warning(
                "two processes are called '%s' in cluster '%s', at %s: end one of them, or give it"
                " another --name",
                self.name,
                self._options.cluster,
                " and ".join(self._control.places(self.name)),
            )
            return math.inf
        return alone_s


def find_owner(identity: str) -> str:
    """Whose certificate another process has, by its Zenoh identity; empty where nobody knows.

    That is the common name, of a process to which an endpoint of this one is connected.
    """
    for endpoint in list(_open_endpoints):
        for link in endpoint.links():
            if str(link.zid) == identity and link.auth_identifier:
                return str(link.auth_identifier)
    return ""


def find_mute() -> set[str]:
    """Members that take this process's connections and tell it nothing."""
    return set[str]().union(*(endpoint.mute() for endpoint in list(_open_endpoints)))


def host_identity() -> bytes:
    """The boot and network namespace: equal exactly where local sockets join two processes."""
    boot, net = boot_id(), namespace("net")
    return f"{boot}/{net}".encode() if boot and net else uuid.uuid4().bytes  # or nobody's
