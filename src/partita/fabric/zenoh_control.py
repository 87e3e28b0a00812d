"""The control plane of a Zenoh endpoint, a session of its own: calls, notes, who is alive."""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import zenoh

from partita.errors import LinkError, NamesakeError
from partita.fabric.base import (
    Caller,
    CallHandler,
    IsOut,
    answer_call,
    no_answer,
    refusal,
    unreachable,
)
from partita.fabric.callbacks import Drain
from partita.fabric.flows import Flush
from partita.fabric.flusher import Flusher
from partita.fabric.key_expressions import Keys, read_caller, read_source
from partita.fabric.pending_calls import PendingCalls
from partita.fabric.zenoh_options import (
    ZenohOptions,
    close_session,
    open_session,
    session_config,
)

_CALL_THREADS = 4
_RETRY_S = 0.05
#: Between looks for signals: one that comes as a wait begins is put off to its end.
_LOOK_S = 0.2
#: The method that says where a process is, and how long it may take to.
WHERE = "partita.where"
_WHERE_S = 1.0
_GOOD, _BAD = b"\x01", b"\x00"
#: A chunk of content has 1 MiB, programs of hundreds of steps have some.
MAX_CALL_BYTES = 64 * 2**20
#: Targets of notes whose publishers are kept; more than a cluster has devices.
_MAX_PUBLISHERS = 256
#: Two processes meet on this plane and on that of data at different times, and may take this long.
_MEET_S = 1.0


class CallHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What travels beside a call's body; who calls is in its key."""

    method: str


class NoteHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What travels beside a note's body; signals are the fabric's own notes."""

    is_signal: bool


class _Call(NamedTuple):
    """One call, and whose it is."""

    query: Any
    caller: Caller
    method: str


_call_head = msgspec.msgpack.Decoder(CallHead)
_note_head = msgspec.msgpack.Decoder(NoteHead)
NoteSink = Callable[[str, bool, bytes], None]
PresenceSink = Callable[[str, bool], None]
Reject = Callable[[str], None]
#: Answers a method of the fabric's own.
FabricHandler = Callable[[Caller, bytes], bytes]


class ControlPlane:
    """Calls, notes and liveliness tokens.

    Args:
        on_note: Called with source, whether it is the fabric's own signal, and body.
        on_presence: Called with name and whether it is there; a restart is both.
        reject: Called with the reason when a frame is malformed.
        is_out: Whose calls are not answered.
    """

    def __init__(
        self,
        options: ZenohOptions,
        on_note: NoteSink,
        on_presence: PresenceSink,
        reject: Reject,
        is_out: IsOut,
    ) -> None:
        self._name = options.name
        self._role = options.role
        self._keys = Keys(options.cluster)
        self._session: Any = open_session(session_config(options, control=True))
        self._on_note, self._on_presence, self._reject = on_note, on_presence, reject
        place = f"{', '.join(options.listen) or 'no address'} on host {platform.node()}".encode()
        self._own: dict[str, FabricHandler] = {WHERE: lambda caller, body: place}
        self._handler: CallHandler | None = None
        self._is_out = is_out
        self._twin_s = 2 * options.lease_s
        self._pool = ThreadPoolExecutor(_CALL_THREADS, f"partita-{options.name}-call")
        self._room = threading.BoundedSemaphore(options.max_calls)
        self._lock = threading.Lock()
        self._publishers: dict[str, Any] = {}
        self._met: set[str] = set()
        self._token: Any = None
        self._tokens: dict[str, set[str]] = {}
        self._pending = PendingCalls(options.name)
        self._drains: list[Drain] = []
        self._flusher = Flusher(options, self._flush)
        self._declared: list[Any] = [
            self._session.liveliness().declare_subscriber(
                self._keys.alive("*", "*"),
                self._drain("alive", self._take_presence),
                history=True,
            ),
        ]

    def _drain(self, kind: str, take: Callable[[Any], None]) -> Any:
        drain = Drain(f"{self._name}-{kind}", take, lambda error: self._reject(error.message))
        self._drains.append(drain)
        return zenoh.handlers.Callback(drain.put, indirect=False)

    def appear(self, incarnation: str) -> None:
        """Declare the token by which others see this endpoint."""
        if self._token is None:
            # Not before: another process of this name may be at work, whose calls these would be.
            session, keys = self._session, self._keys
            note, call = self._drain("note", self._take_note), self._drain("call", self._take_call)
            self._declared += [
                session.declare_subscriber(keys.note(self._name, "*"), note),
                session.declare_queryable(keys.call(self._name, "*", "*"), call),
            ]
            self._token = session.liveliness().declare_token(keys.alive(self._name, incarnation))

    def serve(self, handler: CallHandler) -> None:
        """Answer others' calls; see :meth:`partita.fabric.Endpoint.serve`."""
        self._handler = handler

    def serve_own(self, method: str, handler: FabricHandler) -> None:
        """Answer a method of the fabric's own."""
        self._own[method] = handler

    def call(self, target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        """``target``'s answer; see :meth:`partita.fabric.Endpoint.call`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._await_one(target, deadline_s)
            left_s = deadline_s - time.monotonic()
            was_there = target in self.names()
            with self._pending.one(target) as cancel:
                replies = self._ask(target, method, body, (max(left_s, 0.001), cancel))
            for reply in replies:
                if reply.ok is not None:
                    return self._read_answer(target, reply.ok)
            if cancel.is_cancelled or (was_there and not replies):
                self._await_one(target, deadline_s)
                raise _died(target, method)
            if replies:
                raise no_answer(target, method, timeout_s)
            if time.monotonic() + _RETRY_S >= deadline_s:
                raise unreachable(target, self.names())
            time.sleep(_RETRY_S)  # nobody answers to that name yet

    def _await_one(self, target: str, deadline_s: float) -> None:
        """Wait while two processes have the name: one that was killed is seen for its lease.

        Raises:
            NamesakeError: Both answer, or stay.
        """
        deadline_s = min(deadline_s, time.monotonic() + self._twin_s)
        while len(self.incarnations(target)) > 1:
            places = self.places(target)
            if len(places) > 1 or time.monotonic() >= deadline_s:
                raise NamesakeError(
                    f"Two workers are called {target!r}: {' and '.join(places)}. End "
                    "one, or give it another --name.",
                    device=target,
                )
            time.sleep(_RETRY_S)

    def places(self, name: str) -> list[str]:
        """Where the processes of a name are, as they say themselves."""
        limits = _WHERE_S, zenoh.CancellationToken()
        replies = [reply.ok for reply in self._ask(name, WHERE, b"", limits)]
        return sorted(self._read_answer(name, each).decode() for each in replies if each)

    def _ask(self, target: str, method: str, body: bytes, limits: tuple[float, Any]) -> list[Any]:
        """All replies; an interrupt, such as Ctrl-C, ends the wait, as it would not in Zenoh's."""
        timeout_s, cancel = limits
        replies, is_over = list[Any](), threading.Event()
        try:
            self._session.get(
                self._keys.call(target, self._role, self._name),
                zenoh.handlers.Callback(replies.append, is_over.set, indirect=False),
                payload=body,
                attachment=msgspec.msgpack.encode(CallHead(method)),
                timeout=timeout_s,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
                express=True,
                cancellation_token=cancel,
            )
        except zenoh.ZError as error:
            raise LinkError(f"Call to {target!r} failed: {error}.", device=target) from None
        self._flusher.wrote(target, len(body))
        try:
            while not is_over.wait(_LOOK_S):
                pass
        except BaseException:
            cancel.cancel()
            raise
        return replies

    def abandon_calls(self, target: str) -> None:
        """End the calls that wait for an answer of ``target``: it is gone."""
        self._pending.abandon(target)

    def incarnations(self, name: str) -> set[str]:
        """The processes that are there under a name, as far as this one hears of them."""
        return set(self._tokens.get(name, ()))

    def names(self) -> set[str]:
        """The names whose tokens are there."""
        return {name for name, there in list(self._tokens.items()) if there} - {self._name}

    @staticmethod
    def _read_answer(target: str, sample: Any) -> bytes:
        status = sample.attachment.to_bytes() if sample.attachment is not None else _BAD
        answer: bytes = sample.payload.to_bytes()
        if status != _GOOD:
            raise refusal(target, answer)
        return answer

    def notify(self, target: str, body: bytes, *, is_signal: bool = False) -> None:
        """Send one note, ahead of everything else on the control session.

        The first to a target waits a moment until it is known here: pieces may have come from it,
        and are answered. Signals do not wait, as they are sent again.

        Raises:
            LinkError: The network refuses it.
        """
        head = msgspec.msgpack.encode(NoteHead(is_signal))
        try:
            publisher = self._publisher(target)
            if not is_signal and target not in self._met:
                self._meet(target, publisher)
            publisher.put(body, attachment=head)
        except zenoh.ZError as error:
            raise LinkError(f"Note for {target!r} not sent: {error}.", device=target) from None

    def _flush(self, target: str) -> None:
        with contextlib.suppress(LinkError):  # whatever is wrong is seen by who calls
            self.notify(target, msgspec.msgpack.encode(Flush()), is_signal=True)

    def _meet(self, target: str, publisher: Any) -> None:
        deadline_s = time.monotonic() + _MEET_S
        while not publisher.matching_status.matching and time.monotonic() < deadline_s:
            time.sleep(_RETRY_S / 10)
        self._met.add(target)

    def _publisher(self, target: str) -> Any:
        with self._lock:
            publisher = self._publishers.get(target)
            if publisher is None:
                if len(self._publishers) >= _MAX_PUBLISHERS:
                    oldest = next(iter(self._publishers))
                    self._met.discard(oldest)
                    self._publishers.pop(oldest).undeclare()
                publisher = self._publishers[target] = self._session.declare_publisher(
                    self._keys.note(target, self._name),
                    congestion_control=zenoh.CongestionControl.BLOCK,
                    priority=zenoh.Priority.REAL_TIME,
                    express=True,
                )
            return publisher

    def links(self) -> list[Any]:
        """The connections of its session."""
        return list(self._session.info.links())

    def close(self) -> None:
        """Leave: end the calls under way, undeclare everything and close the session."""
        self._pending.close()
        self._flusher.close()
        for declared in (self._token, *self._declared):
            if declared is not None:
                with contextlib.suppress(zenoh.ZError):  # the network is gone already
                    declared.undeclare()
        close_session(self._session)
        for drain in self._drains:
            drain.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _take_note(self, sample: Any) -> None:
        try:
            head = _note_head.decode(_attachment(sample))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._reject(f"note without a readable head: {error}")
            return
        source = read_source(sample.key_expr)
        self._on_note(source, head.is_signal, sample.payload.to_bytes())

    def _take_call(self, query: Any) -> None:
        try:
            head = _call_head.decode(_attachment(query))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._reject(f"call without a readable head: {error}")
            query.drop()
            return
        role, source = read_caller(query.key_expr)
        if self._is_out(source):
            query.drop()
            return
        call = _Call(query, Caller(source, role), head.method)
        size = len(query.payload) if query.payload is not None else 0
        if size > MAX_CALL_BYTES:
            why = f"{head.method} has {size} bytes, at most {MAX_CALL_BYTES} are allowed"
            self._reply(call, (False, why.encode()))
        elif not self._room.acquire(blocking=False):
            self._reply(call, (False, b"it is busy with other calls; try again"))
        else:
            try:
                self._pool.submit(self._answer, call)
            except RuntimeError:  # the pool is shut down: this endpoint is closing
                query.drop()

    def _answer(self, call: _Call) -> None:
        try:
            self._reply(call, self._find_answer(call))
        finally:
            self._room.release()

    def _find_answer(self, call: _Call) -> tuple[bool, bytes]:
        method, payload = call.method, call.query.payload
        body = payload.to_bytes() if payload is not None else b""
        own = self._own.get(method)
        if own is not None:
            return answer_call(lambda who, _, body: own(who, body), call.caller, method, body)
        if self._handler is None:
            return False, f"no handler for {method!r}".encode()
        return answer_call(self._handler, call.caller, method, body)

    def _reply(self, call: _Call, answered: tuple[bool, bytes]) -> None:
        good, answer = answered
        try:
            call.query.reply(call.query.key_expr, answer, attachment=_GOOD if good else _BAD)
        except zenoh.ZError as error:
            self._reject(f"answer to {call.method!r} could not be sent: {error}")
        finally:
            call.query.drop()
        self._flusher.wrote(call.caller.name, len(answer))

    def _take_presence(self, sample: Any) -> None:
        name, incarnation = str(sample.key_expr).split("/")[-2:]
        there = self._tokens.setdefault(name, set())
        if name == self._name:  # itself, or another process of its name
            (there.add if sample.kind == zenoh.SampleKind.PUT else there.discard)(incarnation)
        elif sample.kind == zenoh.SampleKind.PUT:
            is_restart = bool(there)
            there.add(incarnation)
            if is_restart:
                self._lose(name)
            self._on_presence(name, True)
        else:
            there.discard(incarnation)
            if not there:
                del self._tokens[name]  # names of leaders are drawn: they would pile up
                self._lose(name)

    def _lose(self, name: str) -> None:
        self._on_presence(name, False)
        self.abandon_calls(name)


def _died(target: str, method: str) -> LinkError:
    return LinkError(
        f"Device {target!r} was lost while it answered {method!r}. Look at its worker's log.",
        device=target,
    )


def _attachment(message: Any) -> bytes:
    return message.attachment.to_bytes() if message.attachment is not None else b""
