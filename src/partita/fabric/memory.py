"""The in-process filling: queues between endpoints of one process, for tests and dry runs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

from partita.errors import RunError
from partita.fabric.base import (
    Caller,
    CallHandler,
    DataCallback,
    ErrorCallback,
    IsOut,
    NoteCallback,
    Payload,
    WatchCallback,
    answer_call,
    check_name,
    closed,
    no_answer,
    refusal,
    unreachable,
)
from partita.fabric.callbacks import CallbackThread, ignore_error, run_guarded

_CALL_THREADS = 4


class MemoryFabric:
    """Endpoints that reach each other inside one process.

    Args:
        inline: Deliver pieces, notes and calls on the sender's own thread, in the order of the
            sends: no threads, no races, the same run every time. Callbacks must then not wait.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self.inline = inline
        self.lock = threading.RLock()
        self.members: dict[str, MemoryEndpoint] = {}
        self.cut: set[tuple[str, str]] = set()

    def endpoint(self, name: str) -> MemoryEndpoint:
        """A new endpoint called ``name``.

        Raises:
            RunError: The name is taken or not allowed.
        """
        with self.lock:
            if check_name(name) in self.members:
                raise RunError(f"Device name {name!r} is taken on this fabric.", device=name)
            self.members[name] = MemoryEndpoint(self, name)
            return self.members[name]

    def kill(self, name: str) -> None:
        """Remove an endpoint as a crash would: nothing more leaves it, and the others see it go."""
        self.members[name].close()

    def cut_link(self, source: str, target: str) -> None:
        """Lose everything from ``source`` to ``target`` from now on, as a dead link would."""
        self.cut.add((source, target))

    def tell_watchers(self, name: str, alive: bool) -> None:
        """Pass the coming or going of ``name`` to all the others."""
        with self.lock:
            others = [member for member in self.members.values() if member.name != name]
        for member in others:
            member.see(name, alive)


class MemoryEndpoint:
    """One endpoint of a :class:`MemoryFabric`; see :class:`partita.fabric.Endpoint`."""

    def __init__(self, fabric: MemoryFabric, name: str) -> None:
        self.name = name
        self._fabric = fabric
        self._info: bytes | None = None
        self._data: DataCallback | None = None
        self._early: queue.SimpleQueue[tuple[str, bytes, memoryview]] = queue.SimpleQueue()
        self._note: NoteCallback = lambda source, body: None
        self._watch: WatchCallback | None = None
        self._error: ErrorCallback = ignore_error
        self._handler: CallHandler | None = None
        self._is_closed = False
        self._is_out: IsOut = lambda name: False
        kinds = () if fabric.inline else ("data", "note")
        self._lanes = [CallbackThread(f"{name}-{kind}") for kind in kinds]
        self._calls = None if fabric.inline else ThreadPoolExecutor(_CALL_THREADS, f"{name}-call")

    def announce(self, info: bytes) -> None:
        """Make this endpoint visible; see :meth:`partita.fabric.Endpoint.announce`."""
        self._check_open()
        first = self._info is None
        self._info = info
        if first:
            self._fabric.tell_watchers(self.name, True)

    def send(self, target: str, header: bytes, payload: Payload) -> None:
        """Hand one piece to ``target``; see :meth:`partita.fabric.Endpoint.send`."""
        peer = self._peer(target)
        if self._reaches(peer):
            # A copy, as a wire would make: the sender may then reuse its memory.
            piece = memoryview(bytes(payload))
            peer._run(0, lambda: peer._take(self.name, bytes(header), piece))

    def on_data(self, callback: DataCallback) -> None:
        """Set the callback for pieces; those that came before it are delivered now."""
        self._run(0, lambda: self._set_data(callback))

    def _set_data(self, callback: DataCallback) -> None:
        self._data = callback
        while not self._early.empty():
            self._take(*self._early.get())

    def _take(self, source: str, header: bytes, payload: memoryview) -> None:
        if self._data is None:
            self._early.put((source, header, payload))
        else:
            self._data(source, header, payload)

    def call(self, target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        """``target``'s answer; see :meth:`partita.fabric.Endpoint.call`."""
        peer = self._peer(target)
        handler = peer._handler
        if handler is None or not self._reaches(peer):
            raise no_answer(target, method, timeout_s)
        if peer._calls is None:
            good, answer = answer_call(handler, Caller(self.name), method, body)
        else:
            try:
                caller = Caller(self.name)
                future = peer._calls.submit(answer_call, handler, caller, method, body)
                good, answer = future.result(timeout_s)
            except FutureTimeout:
                raise no_answer(target, method, timeout_s) from None
            except (CancelledError, RuntimeError):  # it closes: its pool is, or will be, shut down
                raise unreachable(target, self.peers()) from None
        if not good:
            raise refusal(target, answer)
        return answer

    def serve(self, handler: CallHandler) -> None:
        """Answer calls with ``handler``; see :meth:`partita.fabric.Endpoint.serve`."""
        self._handler = handler

    def notify(self, target: str, body: bytes) -> None:
        """Send one note; see :meth:`partita.fabric.Endpoint.notify`."""
        self._check_open()
        peer = self._fabric.members.get(target)
        if peer is not None and not self._is_out(target) and self._reaches(peer):
            peer._run(1, lambda: peer._note(self.name, bytes(body)))

    def on_notify(self, callback: NoteCallback) -> None:
        """Set the callback for notes."""
        self._note = callback

    def info(self, target: str, timeout_s: float = 2.0) -> bytes:
        """The announcement of ``target``; see :meth:`partita.fabric.Endpoint.info`."""
        announced = self._peer(target)._info
        if announced is None:
            raise unreachable(target, self.peers())
        return announced

    def watch(self, callback: WatchCallback) -> None:
        """Report comings and goings; see :meth:`partita.fabric.Endpoint.watch`."""
        self._watch = callback
        for name in sorted(self.peers()):
            self.see(name, True)

    def see(self, name: str, alive: bool) -> None:
        """Pass the coming or going of another endpoint to this one's watcher."""
        watch = self._watch
        if watch is not None and not (alive and self._is_out(name)):
            self._run(1, lambda: watch(name, alive))

    def peers(self) -> set[str]:
        """The names of the others that announced themselves."""
        with self._fabric.lock:
            members = list(self._fabric.members.values())
        there = {m.name for m in members if m is not self and m._info is not None}
        return {name for name in there if not self._is_out(name)}

    def shut_out(self, is_out: IsOut) -> None:
        """Have nothing more to do with some; see :meth:`partita.fabric.Endpoint.shut_out`."""
        before = self.peers()
        self._is_out = is_out
        for name in sorted(before - self.peers()):
            self.see(name, False)

    def on_error(self, callback: ErrorCallback) -> None:
        """Set the callback for faults."""
        self._error = callback

    def close(self) -> None:
        """Leave the fabric; see :meth:`partita.fabric.Endpoint.close`."""
        with self._fabric.lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._fabric.members.pop(self.name, None)
        if self._info is not None:
            self._fabric.tell_watchers(self.name, False)
        for lane in self._lanes:
            lane.close()
        if self._calls is not None:
            self._calls.shutdown(wait=False, cancel_futures=True)

    def _run(self, lane: int, job: Callable[[], None]) -> None:
        if self._lanes:
            self._lanes[lane].put(job, self._error)
            return
        run_guarded(job, self._error, self.name)

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed(self.name)

    def _peer(self, target: str) -> MemoryEndpoint:
        self._check_open()
        peer = self._fabric.members.get(target)
        if peer is None or self._is_out(target):
            raise unreachable(target, self.peers())
        return peer

    def _reaches(self, peer: MemoryEndpoint) -> bool:
        """Whether what is sent to a peer is taken there."""
        return (self.name, peer.name) not in self._fabric.cut and not peer._is_out(self.name)
