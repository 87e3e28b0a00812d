"""A bundle in use: like a session of ONNX Runtime, but there before it is loaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from partita.errors import BundleError, InputError, RunError
from partita.execution import (
    Action,
    Delivered,
    Fed,
    Finished,
    Free,
    Loaded,
    Machine,
    Start,
    StartLoad,
)
from partita.execution.pieces import index_buffers, plan_gather
from partita.loading.ahead import ReadAhead
from partita.loading.manifest import WEIGHTS, Manifest, Scheme, choose_scheme, read_manifest
from partita.loading.opening import open_child, warm_up
from partita.loading.verify import check_feeds, check_files, find_altered_weights
from partita.program import Compute, Deliver, Feed, Load, TensorSpec

Array = npt.NDArray[Any]

#: What closing waits for a child that loads.
_MOST_S = 10.0


@dataclass(frozen=True)
class Mark:
    """Something that a child did.

    Attributes:
        what: ``load`` or ``compute``.
        child: Its number.
        start_s: Seconds after the bundle was opened.
        end_s: The same, when it was done.
    """

    what: str
    child: int
    start_s: float
    end_s: float


def load_bundle(
    folder: str | Path,
    *,
    scheme: str | None = None,
    threads: int | None = None,
    loaders: int | None = None,
    read_ahead: bool = True,
    verify: bool = True,
    settle: bool | None = None,
) -> BundleSession:
    """Return a session over a bundle; it can be asked at once, while its children load.

    Args:
        folder: What ``partita load split`` wrote.
        scheme: Name of the scheme to use; the first that this processor can run by default.
        threads: Threads within one operator; the scheme's by default.
        loaders: Children that load at the same time; the scheme's by default.
        read_ahead: Whether weights are read ahead of the layers that need them.
        verify: Whether the weights are compared with their hash, in the background: an answer
            after that is refused where they were altered.
        settle: Whether children are opened anew in the background once all is loaded, for later
            answers: threads wait busily then. The scheme decides by default: what it gains is
            measured when a model is split.

    Raises:
        BundleError: The bundle is missing, damaged, of another engine, or for another processor.
    """
    home = Path(folder)
    manifest = read_manifest(home)
    chosen = choose_scheme(manifest, home, scheme)
    return BundleSession(
        home / chosen.name,
        manifest,
        chosen,
        threads=threads or chosen.threads,
        loaders=loaders or chosen.loaders,
        read_ahead=read_ahead,
        verify=verify,
        settle=settle,
    )


class BundleSession:
    """The children of one scheme, executed by the state machine that workers have.

    Made by :func:`load_bundle`. A child computes when it is loaded and its inputs are there, while
    later ones still load. Calls from several threads are answered one after the other.

    Attributes:
        manifest: The bundle's.
        scheme: The one in use.
        marks: What each child did, in the order in which it was done; of all loads and of the last
            request.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        scheme: Scheme,
        *,
        threads: int,
        loaders: int,
        read_ahead: bool,
        verify: bool,
        settle: bool | None = False,
    ) -> None:
        self.manifest = manifest
        self.scheme = scheme
        self.marks: list[Mark] = []
        self._began_s = time.perf_counter()
        self._folder = folder
        self._threads = threads
        self._settles = scheme.settle if settle is None else settle
        check_files(folder, scheme)
        program = scheme.program.devices[0]
        self._machine = Machine(program, (), 1, loaders=loaders)
        self._steps = {step.id: step for step in program.steps}
        buffers = index_buffers(program)
        self._gathers = {
            step.id: tuple(plan_gather(read, buffers) for read in step.reads)
            for step in program.steps
            if isinstance(step, Compute | Deliver)
        }
        self._sessions: dict[int, Any] = {}
        self._asked: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
        self._held: dict[int, Array] = {}
        # Ctrl-C may come anywhere: what waits here is written in C, and leaves no lock held.
        self._ready: SimpleQueue[Start | None] = SimpleQueue()
        self._change = threading.Lock()
        self._asking = threading.Lock()
        self._count = 0
        self._is_answered = False
        self._error: BundleError | None = None
        self._is_closed = False
        self._loading: list[threading.Thread] = []
        with self._change:
            self._act(self._machine.begin())
        # From here on children load; starting threads takes time, too.
        self._ahead = ReadAhead(_weights_of(folder, scheme)) if read_ahead else None
        self._verify = verify
        self._finisher: threading.Thread | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether all children are there."""
        return self._machine.is_loaded

    def get_inputs(self) -> tuple[TensorSpec, ...]:
        """Return name, shape and type of each input."""
        return self.scheme.program.inputs

    def get_outputs(self) -> tuple[TensorSpec, ...]:
        """Return name, shape and type of each output."""
        return self.scheme.program.outputs

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Array]:
        """Return the outputs for one request.

        Args:
            outputs: Names of the wanted outputs, in order; all when None.
            feeds: An array per input, of its exact shape and type.

        Raises:
            InputError: A name is unknown or missing, or an array does not fit.
            BundleError: A child is altered or cannot be loaded.
            RunError: A child failed.
        """
        program = self.scheme.program
        names = [spec.name for spec in program.outputs]
        wanted = names if outputs is None else list(outputs)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise InputError(
                f"Output '{unknown[0]}' is unknown; allowed: {', '.join(names)}.",
                subject=unknown[0],
            )
        arrays = check_feeds(program.inputs, feeds)
        with self._asking:
            found = self._answer(arrays)
        return [found[name] for name in wanted]

    def wait(self) -> None:
        """Return when all children are loaded and, where asked for, verified and settled.

        Raises:
            BundleError: A child is altered or cannot be loaded.
        """
        self._await_loads()
        self._start_finishing()
        if self._finisher is not None:
            self._finisher.join()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Let go of everything; may be repeated."""
        self._is_closed = True
        self._ready.put(None)
        for thread in self._loading:
            thread.join(_MOST_S)
        if self._ahead is not None:
            self._ahead.close()
        self._sessions.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        with self._change:
            self._raise_fault()
            self.marks = [mark for mark in self.marks if mark.what == "load"]
            for step in self._steps.values():
                if isinstance(step, Feed):
                    self._held[step.write] = arrays[step.tensor]
            self._is_answered = False
            self._act(self._machine.handle(Fed(self._count, ())))
        while not self._is_answered:
            start = self._ready.get()
            if start is not None:
                self._do(start)
            elif not self._is_answered:
                self._raise_fault()
        self._count += 1
        self._start_finishing()
        return self._found

    def _do(self, start: Start) -> None:
        step = self._steps[start.step]
        if isinstance(step, Compute):
            began_s = self._now_s()
            arguments = [gather.collect(self._held) for gather in self._gathers[step.id]]
            made = self._compute(step, arguments)
            self.marks.append(Mark("compute", step.fragment, began_s, self._now_s()))
        with self._change:
            if isinstance(step, Compute):
                self._held.update(zip(step.writes, made, strict=True))
            elif isinstance(step, Deliver):
                pairs = zip(step.reads, self._gathers[step.id], strict=True)
                self._found = {read.tensor: gather.collect(self._held) for read, gather in pairs}
            self._act(self._machine.handle(Finished(start.step, start.request)))

    def _compute(self, step: Compute, arguments: list[Array]) -> list[Array]:
        session = self._sessions[step.fragment]
        feeds = {f"i{place}": array for place, array in enumerate(arguments)}
        if step.fragment not in self._asked:
            self._asked[step.fragment] = [(array.shape, array.dtype) for array in arguments]
        try:
            made: list[Array] = session.run([f"o{k}" for k in range(len(step.writes))], feeds)
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise RunError(
                f"Child {step.fragment} of bundle '{self._folder.parent}' failed: {_first(error)}.",
                step=step.label,
            ) from None
        return made

    def _act(self, actions: Sequence[Action]) -> None:
        """Do what the machine says; the caller holds the lock."""
        for action in actions:
            if isinstance(action, Start):
                self._ready.put(action)
            elif isinstance(action, StartLoad):
                self._start_load(action.step)
            elif isinstance(action, Free):
                self._held.pop(action.buffer, None)
            elif isinstance(action, Delivered):
                self._is_answered = True
                self._ready.put(None)

    def _start_load(self, number: int) -> None:
        step = self._steps[number]
        assert isinstance(step, Load)
        thread = threading.Thread(
            target=self._load,
            args=(number, step.fragment),
            name=f"load-{step.fragment}",
            daemon=True,
        )
        self._loading.append(thread)
        thread.start()

    def _load(self, number: int, child: int) -> None:
        if self._is_closed:
            return
        began_s = self._now_s()
        try:
            session = self._open(child, prepack=self.scheme.prepack)
        except BundleError as error:
            self._fail(error)
            return
        with self._change:
            self._sessions[child] = session
            self.marks.append(Mark("load", child, began_s, self._now_s()))
            if not self._is_closed:
                self._act(self._machine.handle(Loaded(number)))

    def _open(self, child: int, *, prepack: bool = False, spinning: bool = False) -> Any:
        path = self._folder / self.scheme.children[child].file
        try:
            return open_child(
                path,
                self._threads,
                prepack=prepack,
                spinning=spinning,
                alone=len(self.scheme.children) == 1,
                shares_memory=self._settles,
            )
        except Exception as error:  # as for runs
            raise BundleError(
                f"Child '{path}' cannot be loaded: {_first(error)}.", subject=str(path)
            ) from None

    def _start_finishing(self) -> None:
        """Begin, once, what would hold up the first answer."""
        with self._change:
            if self._finisher is not None or self._is_closed:
                return
            self._finisher = threading.Thread(target=self._finish, name="finish", daemon=True)
            self._finisher.start()

    def _finish(self) -> None:
        """Verify the weights, and settle."""
        error = None
        if self._verify and not self._is_closed:
            error = find_altered_weights(self._folder, self.scheme)
        try:
            if error is None and self._settles:
                self._settle()
        except BundleError as fault:
            error = fault
        if error is not None:
            self._fail(error)

    def _settle(self) -> None:
        """Open the children anew as later answers come soonest, now that nothing loads."""
        self._await_loads()
        for child in range(len(self.scheme.children)):
            if self._error or self._is_closed:
                return
            session = self._open(child, prepack=self.scheme.prepack, spinning=True)
            warm_up(session, self._asked.get(child, ()))
            with self._change:
                if child in self._sessions:  # not closed meanwhile
                    self._sessions[child] = session

    def _await_loads(self) -> None:
        for thread in self._loading:  # each begins the next before it ends
            thread.join()

    def _fail(self, error: BundleError) -> None:
        self._error = self._error or error
        self._ready.put(None)

    def _raise_fault(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise RunError("The bundle is closed; load it again.")

    def _now_s(self) -> float:
        return time.perf_counter() - self._began_s


def _weights_of(folder: Path, scheme: Scheme) -> list[tuple[Path, int]]:
    """Return the files of weights in the order of use, and how much of each is used."""
    shared = [child.start + child.size_bytes for child in scheme.children if not child.weights]
    own = [(child.weights, child.size_bytes) for child in scheme.children if child.weights]
    found = [(WEIGHTS, max(shared, default=0)), *own]
    return [(folder / name, size) for name, size in found if size]


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
