"""A bundle in use: like a session of ONNX Runtime, but there before it is loaded."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from partita.errors import BundleError, InputError, RunError, first_line
from partita.loading.bundle.manifest import (
    MOST,
    WEIGHTS,
    Manifest,
    Variant,
    choose_variant,
    read_manifest,
    stamp_of,
)
from partita.loading.bundle.ort_session import open_child
from partita.loading.bundle.verify import check_files, find_altered_weights
from partita.loading.serve.detached_thread import DetachedThread
from partita.loading.serve.read_ahead import ReadAhead
from partita.loading.serve.runner import Mark, Runner
from partita.program import TensorSpec, check_feeds
from partita.regions import Array

#: At the end of the process nothing is to be read or verified any more.
_open_sessions: weakref.WeakSet[BundleSession] = weakref.WeakSet()


@atexit.register
def _close_sessions() -> None:
    for session in list(_open_sessions):
        session.close()


def _renew_locks() -> None:
    """In a forked process: threads that held a lock are not there to let go of it."""
    for session in list(_open_sessions):
        session.renew_locks()


os.register_at_fork(after_in_child=_renew_locks)


def load_bundle(
    folder: str | Path,
    *,
    variant: str | None = None,
    threads: int | None = None,
    loaders: int | None = None,
    read_ahead: bool = True,
    verify: bool = True,
) -> BundleSession:
    """A session over a bundle; it can be asked at once, while its children load.

    Args:
        folder: What ``partita load split`` wrote.
        variant: Name of the variant to use; the first that this processor can run by default.
        threads: Threads within one operator; the variant's by default.
        loaders: Children that load at the same time; the variant's by default.
        read_ahead: Whether weights are read ahead of the layers that need them.
        verify: Whether the weights are compared with their hash, in the background: an answer
            after that is refused where they were altered.

    Raises:
        BundleError: The bundle is missing, damaged, of another engine, or for another processor.
        InputError: Threads or loaders are no numbers from 1 to 256.
    """
    for name, number in (("threads", threads), ("loaders", loaders)):
        if number is not None and not (isinstance(number, int) and 1 <= number <= MOST):
            raise InputError(f"{name} is {number!r}: allowed are 1 to {MOST}.", subject=name)
    home = Path(folder)
    stamp = stamp_of(home)
    manifest = read_manifest(home)
    chosen = choose_variant(manifest, home, variant)
    return BundleSession(
        home / chosen.name,
        manifest,
        chosen,
        threads=threads or chosen.threads,
        loaders=loaders or chosen.loaders,
        read_ahead=read_ahead,
        verify=verify,
        stamp=stamp,
    )


class BundleSession:
    """The children of one variant, executed by the state machine that workers have.

    Made by :func:`load_bundle`. A child computes when it is loaded and its inputs are there, while
    later ones still load; a single one is loaded by whoever makes the session. Calls from several
    threads are answered one after the other.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        variant: Variant,
        *,
        threads: int,
        loaders: int,
        read_ahead: bool,
        verify: bool,
        stamp: tuple[int, ...],
    ) -> None:
        self.manifest = manifest
        self.variant = variant
        self._folder = folder
        self._stamp, self._is_whole = stamp, False
        self._threads = threads
        check_files(folder, variant)
        self._ahead = ReadAhead(_weights_of(folder, variant)) if read_ahead else None
        try:
            self._runner = Runner(
                variant.program.devices[0],
                self._open,
                loaders=loaders,
                name=f"bundle '{folder.parent}'",
                # Making one session of mapped weights takes less than handing it over.
                at_once=len(variant.children) == 1 and not variant.prepack,
            )
        except BaseException:
            if self._ahead is not None:
                self._ahead.close()
            raise
        self._verify = verify
        self._asking = threading.Lock()
        self._asker = 0
        self._beginning = threading.Lock()
        self._verifier: DetachedThread | None = None
        self._is_closed = False
        _open_sessions.add(self)

    @property
    def marks(self) -> list[Mark]:
        """What each child did, in the order in which it was done: all loads, the last request."""
        return self._runner.marks

    @property
    def is_loaded(self) -> bool:
        """Whether all children are there."""
        return self._runner.is_loaded

    def get_inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and type of each input."""
        return self.variant.program.inputs

    def get_outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and type of each output."""
        return self.variant.program.outputs

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Array]:
        """The outputs for one request.

        Args:
            outputs: Names of the wanted outputs, in order; all when None or empty.
            feeds: An array per input, of its exact shape and type.

        Raises:
            InputError: A name is unknown or missing, or an array does not fit.
            BundleError: A child is altered or cannot be loaded, or the bundle was replaced before
                all of it was loaded.
            RunError: A child failed, or this thread's own request is under way: a signal's handler
                asks in the middle of it.
        """
        program = self.variant.program
        names = [spec.name for spec in program.outputs]
        if outputs is not None and (isinstance(outputs, str) or not isinstance(outputs, Sequence)):
            raise InputError(f"Outputs are {outputs!r}: allowed is a list of names, or None.")
        wanted = list(outputs or names)
        unknown = [name for name in wanted if not isinstance(name, str) or name not in names]
        if unknown:
            raise InputError(
                f"Output '{unknown[0]}' is unknown; allowed: {', '.join(names)}.",
                subject=unknown[0],
            )
        arrays = check_feeds(program.inputs, feeds)
        if self._asker == threading.get_ident():
            raise RunError("A request of this thread is under way; ask again after its answer.")
        with self._asking:
            self._asker = threading.get_ident()
            try:
                outputs_by_name = self._runner.answer(arrays)
            finally:
                self._asker = 0
        self._check_made()
        self._start_verifying()
        if len(set(wanted)) < len(wanted):  # each is the caller's own
            return [outputs_by_name[name].copy() for name in wanted]
        return [outputs_by_name[name] for name in wanted]

    def wait(self) -> None:
        """Wait until all children are loaded and, where asked for, verified.

        Raises:
            BundleError: A child is altered or cannot be loaded.
            RunError: The bundle is closed.
        """
        self._runner.await_loads()
        self._runner.check()
        self._check_made()
        self._start_verifying()
        if self._verifier is not None:
            self._verifier.join()
        elif self._verify:  # no thread is to be had
            self._verify_weights()
        self._runner.check()

    def renew_locks(self) -> None:
        """Be of use in a process that was forked while another thread asked."""
        self._asking, self._asker = threading.Lock(), 0
        self._beginning = threading.Lock()
        self._ahead = self._verifier = None  # threads of the other process
        self._runner.renew_locks()

    def close(self) -> None:
        """Let go of everything; may be repeated."""
        self._is_closed = True
        self._runner.close()
        if self._ahead is not None:
            self._ahead.close()
        if self._verifier is not None:
            self._verifier.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, child: int) -> Any:
        asked = self.variant.children[child]
        path = self._folder / asked.file
        try:
            return open_child(
                path,
                self._threads,
                prepack=self.variant.prepack,
                weights=self._folder / (asked.weights or WEIGHTS),
                packed=asked.packed,
            )
        except Exception as error:  # as for runs
            if self._is_replaced():
                raise self._replaced() from None
            raise BundleError(
                f"Child '{path}' cannot be loaded: {first_line(error)}.", subject=str(path)
            ) from None

    def _start_verifying(self) -> None:
        """Begin, once, what would hold up the first answer."""
        with self._beginning:
            if self._verify and self._verifier is None and not self._is_closed:
                with suppress(RuntimeError):  # no thread is to be had: the next request tries again
                    self._verifier = DetachedThread(self._verify_weights)

    def _verify_weights(self) -> None:
        error = find_altered_weights(self._folder, self.variant, lambda: self._is_closed)
        if error is not None:
            self._runner.fail(self._replaced() if self._is_replaced() else error)

    def _check_made(self) -> None:
        """Refuse, once all children are there, what may be of two bundles."""
        if self._is_whole or not self._runner.is_loaded:
            return
        if self._is_replaced():
            self._runner.fail(self._replaced())
            self._runner.check()
        self._is_whole = True

    def _is_replaced(self) -> bool:
        return stamp_of(self._folder.parent) not in ((), self._stamp)

    def _replaced(self) -> BundleError:
        return BundleError(
            f"Bundle '{self._folder.parent}' was replaced while it was in use; load it again.",
            subject=str(self._folder.parent),
        )


def _weights_of(folder: Path, variant: Variant) -> list[tuple[Path, int]]:
    """The files of weights in the order of use, and how much of each is used."""
    shared = [child.start + child.size_bytes for child in variant.children if not child.weights]
    own = [(child.weights, child.size_bytes) for child in variant.children if child.weights]
    files = [(WEIGHTS, max(shared, default=0)), *own]
    return [(folder / name, size) for name, size in files if size]
