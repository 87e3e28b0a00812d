"""Executing a bundle's children: the machine says what to do, threads that load do most of it."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import msgspec

from partita.errors import BundleError, RunError, first_line
from partita.execution import (
    Action,
    Fed,
    Finished,
    Free,
    Loaded,
    Machine,
    Start,
    StartLoad,
)
from partita.execution.pieces import Gather, index_buffers, plan_gather
from partita.program import Compute, Deliver, DeviceProgram, Feed, Load
from partita.regions import Array

#: At the end of the process the engine must not be making a session any more: it would abort.
_runners: weakref.WeakSet[Runner] = weakref.WeakSet()


@atexit.register
def _close_runners() -> None:
    for runner in list(_runners):
        runner.close()


#: Seconds that closing waits for a child that loads; the largest here take less than one.
_MOST_S = 10.0
_CLOSED = "The bundle is closed; load it again."


class Mark(msgspec.Struct, frozen=True):
    """Something that a child did.

    Attributes:
        what: ``load`` or ``compute``.
        start_s: Seconds after the bundle was opened.
        end_s: The same, when it was done.
    """

    what: str
    child: int
    start_s: float
    end_s: float


@dataclass(eq=False)
class _Request:
    """A request under way: its arrays by buffer, and what came of it."""

    held: dict[int, Array]
    outputs: dict[str, Array] = field(default_factory=dict)
    fault: Exception | None = None
    ended: SimpleQueue[None] = field(default_factory=SimpleQueue)


class Runner:
    """Loads children and computes with them; one request at a time.

    A child that a request waits for is computed by the thread that has loaded it: handing it over
    would take longer than starting a thread. What is there already is computed by the caller.

    Args:
        program: What is loaded and computed, in order.
        open_one: Returns the engine's session of a child.
        name: Of what is executed, for errors.
        at_once: Whether the one child is loaded here and now, not by a thread.

    Attributes:
        sessions: Those of the children that are loaded, by number.
        marks: What each child did: all loads, and what the last request made them do.
    """

    def __init__(
        self,
        program: DeviceProgram,
        open_one: Callable[[int], Any],
        *,
        loaders: int,
        name: str,
        at_once: bool = False,
    ) -> None:
        self.sessions: dict[int, Any] = {}
        self.marks: list[Mark] = []
        self._began_s = time.perf_counter()
        self._program = program
        self._open = open_one
        self._loaders = loaders
        self._name = name
        self._steps = {step.id: step for step in program.steps}
        self._feeds = {step.write: step.tensor for step in program.steps if isinstance(step, Feed)}
        buffers = index_buffers(program)
        self._gathers = {
            step.id: tuple(plan_gather(read, buffers) for read in step.reads)
            for step in program.steps
            if isinstance(step, Compute | Deliver)
        }
        # Ctrl-C may come anywhere: what waits here is written in C, and leaves no lock held.
        self._change = threading.Lock()
        self._request: _Request | None = None
        self._count = 0
        self._error: BundleError | None = None
        self._is_closed = False
        self._loading: dict[int, threading.Thread] = {}
        self._process = os.getpid()
        self._must_begin = True
        _runners.add(self)
        if at_once:
            self.sessions[0] = open_one(0)
            self.marks.append(Mark("load", 0, 0.0, self._now_s()))
        try:
            with self._change:
                self._begin()
        except BaseException:
            self.close()  # the engine must not be making a session when the process ends
            raise

    @property
    def is_loaded(self) -> bool:
        """Whether all children are there."""
        return self._machine.is_loaded

    def answer(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The program's outputs by name; one caller at a time.

        Raises:
            BundleError: A child cannot be loaded, or :meth:`fail` was called.
            RunError: A child failed, or the runner is closed.
        """
        with self._change:
            self.check()
            if self._must_begin or self._request is not None:  # it failed, or was interrupted
                self._begin()
            self.marks = [mark for mark in self.marks if mark.what == "load"]
            held = {buffer: arrays[tensor] for buffer, tensor in self._feeds.items()}
            request = self._request = _Request(held)
            starts = self._act(self._machine.handle(Fed(self._count, ())))
        self._go_on(request, starts)
        request.ended.get()
        with self._change:
            if request.fault is not None:
                raise request.fault
            if not request.outputs:
                self.check()
            self._count += 1
            self._request = None
        return request.outputs

    def check(self) -> None:
        """Raise what :meth:`answer` would."""
        if self._error is not None:  # a new one: each that is raised keeps what led to it
            raise BundleError(self._error.message, subject=self._error.subject)
        if self._is_closed:
            raise RunError(_CLOSED)
        if os.getpid() != self._process and not self.is_loaded:
            raise RunError(
                f"{self._name[0].upper()}{self._name[1:]} was loading when this process was forked:"
                " load it here."
            )

    def fail(self, error: BundleError) -> None:
        """Answer no more: requests raise this error, also one that waits for a child."""
        with self._change:
            self._error = self._error or error
            self._end()

    def await_loads(self) -> None:
        """Wait until no child loads any more."""
        with self._change:
            if self._must_begin:
                self._begin()
        loads = [step.fragment for step in self._steps.values() if isinstance(step, Load)]
        for child in loads:
            thread = self._loading.get(child)  # each begins the next before it ends
            if thread is not None and thread.ident is not None:
                thread.join()

    def renew_locks(self) -> None:
        """Be of use in a forked process: a thread may have held a lock, or asked."""
        self._change = threading.Lock()
        self._must_begin = self._must_begin or self._request is not None

    def close(self) -> None:
        """Let go of everything; may be repeated. A forked process leaves all to its parent."""
        if os.getpid() != self._process:
            self._is_closed = True
            return
        with self._change:
            self._is_closed = True
            self._end()
        for thread in self._loading.values():
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(_MOST_S)
        self.sessions.clear()

    def _begin(self) -> None:
        """Begin to load, or begin anew with what is loaded; the caller holds the lock.

        It may be interrupted as well, and is done again then.
        """
        self._must_begin = True
        self._machine = Machine(self._program, (), 1, loaders=self._loaders)
        self._count = 0
        self._request = None
        self._act(self._machine.begin())
        self._must_begin = False

    def _act(self, actions: Sequence[Action]) -> list[Start]:
        """Do what the machine says but for steps, which are returned; the caller holds the lock."""
        starts = []
        for action in actions:
            if isinstance(action, Start):
                starts.append(action)
            elif isinstance(action, StartLoad):
                starts += self._start_load(action.step)
            elif isinstance(action, Free) and self._request is not None:
                self._request.held.pop(action.buffer, None)
        return starts

    def _start_load(self, number: int) -> list[Start]:
        step = self._steps[number]
        assert isinstance(step, Load)
        child = step.fragment
        if child in self.sessions:
            return self._act(self._machine.handle(Loaded(number)))
        thread = self._loading.get(child)
        if thread is None or thread.ident is None:  # or it was interrupted before it began
            arguments, name = (number, child), f"load-{child}"
            thread = threading.Thread(target=self._load, args=arguments, name=name, daemon=True)
            self._loading[child] = thread
            try:
                thread.start()
            except RuntimeError as error:
                del self._loading[child]
                raise BundleError(
                    f"Child {child} of {self._name} cannot be loaded: {first_line(error)}."
                ) from None
        return []

    def _load(self, number: int, child: int) -> None:
        """Load a child, and compute what waits for it; no error may end the thread unheard."""
        request = None
        try:
            if not self._is_closed:
                request, starts = self._load_child(number, child)
        except BundleError as error:
            self.fail(error)
        except Exception as error:
            message = f"Child {child} of {self._name} cannot be loaded: {first_line(error)}."
            self.fail(BundleError(message))
        if request is not None:
            try:
                self._go_on(request, starts)
            except Exception as error:  # the caller's to raise, whatever it is
                request.fault = error
                request.ended.put(None)

    def _load_child(self, number: int, child: int) -> tuple[_Request | None, list[Start]]:
        began_s = self._now_s()
        session = self._open(child)
        with self._change:
            if self._is_closed or child in self.sessions:
                return None, []
            self.sessions[child] = session
            self.marks.append(Mark("load", child, began_s, self._now_s()))
            if self._must_begin:  # which will find it
                return None, []
            return self._request, self._act(self._machine.handle(Loaded(number)))

    def _go_on(self, request: _Request, starts: Sequence[Start]) -> None:
        """Do these steps, and those that can be done then."""
        ready = deque(starts)
        while ready:
            ready.extend(self._do(request, ready.popleft()))

    def _do(self, request: _Request, start: Start) -> list[Start]:
        step = self._steps[start.step]
        if isinstance(step, Compute):
            began_s = self._now_s()
            arguments = [gather.collect(request.held) for gather in self._gathers[step.id]]
            results = self._compute(step, arguments)
        with self._change:
            if request is not self._request:  # it was interrupted, and another one came
                return []
            if isinstance(step, Compute):
                self.marks.append(Mark("compute", step.fragment, began_s, self._now_s()))
                request.held.update(zip(step.writes, results, strict=True))
            elif isinstance(step, Deliver):
                pairs = zip(step.reads, self._gathers[step.id], strict=True)
                request.outputs = {
                    read.tensor: self._collect_own(gather, request.held) for read, gather in pairs
                }
            starts = self._act(self._machine.handle(Finished(start.step, start.request)))
            if not self._machine.open_requests:  # what no output needs is done, too
                self._end()
            return starts

    def _collect_own(self, gather: Gather, held: Mapping[int, Array]) -> Array:
        """An output that shares nothing with what the caller gave."""
        output = gather.collect(held)
        return output.copy() if any(part.buffer in self._feeds for part in gather.parts) else output

    def _compute(self, step: Compute, arguments: list[Array]) -> list[Array]:
        session = self.sessions.get(step.fragment)
        if session is None:
            raise RunError(_CLOSED)
        feeds = {f"i{place}": array for place, array in enumerate(arguments)}
        try:
            results: list[Array] = session.run([f"o{k}" for k in range(len(step.writes))], feeds)
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise RunError(
                f"Child {step.fragment} of {self._name} failed: {first_line(error)}.",
                step=step.label,
            ) from None
        return results

    def _end(self) -> None:
        """Wake who waits for the request."""
        request = self._request
        if request is not None:
            request.ended.put(None)

    def _now_s(self) -> float:
        return time.perf_counter() - self._began_s
