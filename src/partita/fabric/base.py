"""The seam between devices: one small interface, three fillings (in-memory, Zenoh, shaped)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from partita.errors import ClusterError, LinkError, RunError, name_error
from partita.fabric.members import LEADER
from partita.naming import NAME_RULE, is_name

#: Anything that exposes contiguous bytes without a copy.
Payload = bytes | bytearray | memoryview


class Caller(NamedTuple):
    """Who calls; all are leaders where endpoints have no roles."""

    name: str
    role: str = LEADER


DataCallback = Callable[[str, bytes, memoryview], None]
NoteCallback = Callable[[str, bytes], None]
WatchCallback = Callable[[str, bool], None]
CallHandler = Callable[[Caller, str, bytes], bytes]
ErrorCallback = Callable[[RunError], None]
#: Whether an endpoint of a name is one to have nothing to do with.
IsOut = Callable[[str], bool]


class Endpoint(Protocol):
    """One device's connections: a data plane for pieces, a control plane for all else.

    Set the callbacks first, then ``announce``: from then on others may send. Every callback runs on
    a thread of the endpoint, one at a time per kind, and must only hand over (put into a queue,
    notify a condition); an endpoint that is held up longer than the lease looks dead. An exception
    in a callback is reported through ``on_error`` and never ends the thread.
    """

    name: str

    def announce(self, info: bytes) -> None:
        """Make this endpoint visible to the others' ``watch`` and ``peers``, with facts about it.

        Args:
            info: A few hundred bytes, returned by the others' ``info``. May be called again.
        """

    def send(self, target: str, header: bytes, payload: Payload) -> None:
        """Hand one piece over to the link to ``target``; blocks for as long as the link is full.

        Pieces from one endpoint to one other arrive in the order of their sends, each once, whole,
        or not at all; then ``on_error`` of the sender says so. The payload must not change until
        the piece has arrived (the endpoint may keep a view of it to send it again).

        Args:
            header: What the receiver needs to place the piece; at most 16 KiB.
            payload: The piece's bytes; 0 to 1 GiB.

        Raises:
            LinkError: The target is unknown or gone, or the way to it is.
        RunError: This endpoint is closed.
        """

    def on_data(self, callback: DataCallback) -> None:
        """Call ``callback(source, header, payload)`` for each piece that arrives.

        The payload's memory belongs to the receiver from then on; it is not written again.
        """

    def call(self, target: str, method: str, body: bytes, timeout_s: float) -> bytes:
        """The answer of ``target``'s handler to one request on the control plane.

        Args:
            body: At most a few MiB; larger things travel in several calls.
            timeout_s: Longest wait, including the wait until ``target`` is there.

        Raises:
            LinkError: No such device, or no answer in time.
            RunError: The handler's own error message.
        """

    def serve(self, handler: CallHandler) -> None:
        """Answer the others' calls with ``handler(caller, method, body)``.

        The handler may take long and runs on its own threads, several calls at the same time. An
        error it raises travels to the caller as a ``RunError``.
        """

    def notify(self, target: str, body: bytes) -> None:
        """Send one small one-way message on the control plane; lost if the target is not there.

        Messages from one endpoint to one other keep their order. They overtake pieces. One to the
        endpoint itself comes as those of others do.
        """

    def on_notify(self, callback: NoteCallback) -> None:
        """Call ``callback(source, body)`` for each message of ``notify``."""

    def info(self, target: str, timeout_s: float = 2.0) -> bytes:
        """The facts that ``target`` announced about itself.

        Raises:
            RunError: ``target`` is not there within the time.
        """

    def watch(self, callback: WatchCallback) -> None:
        """Call ``callback(name, alive)`` for each endpoint that appears, closes, dies or hangs.

        Endpoints that are already there are told at once.
        """

    def peers(self) -> set[str]:
        """The names of the other endpoints that are alive now."""

    def shut_out(self, is_out: IsOut) -> None:
        """Have nothing more to do with endpoints of some names, for good; may be called again.

        Nothing of theirs is taken: no piece, note or call, nor that they are there; and nothing is
        sent to them: that is as with a target that is gone. Watchers see those go who are there.

        Args:
            is_out: Whether a name is one of them.
        """

    def on_error(self, callback: ErrorCallback) -> None:
        """Call ``callback(error)`` for each rejected frame, lost link and failing callback."""

    def close(self) -> None:
        """Leave; the others' ``watch`` sees it. Frees all threads and sockets; may be repeated."""


def check_name(name: str, what: str = "Device") -> str:
    """``name``, if an endpoint may have it.

    Raises:
        ClusterError: The name holds other characters than letters, digits, dot, dash, underscore.

    >>> check_name("nano-1")
    'nano-1'
    """
    if not is_name(name):
        raise ClusterError(
            f"{what} name {name!r} cannot be used on the network: allowed are {NAME_RULE}. "
            "Rename it in the cluster file and for its worker.",
            subject=name,
        )
    return name


def unreachable(target: str, peers: set[str]) -> LinkError:
    """The error for a target that is not there, with the names of those that are."""
    there = ", ".join(sorted(peers)) or "none"
    return LinkError(
        f"Device {target!r} cannot be reached: no worker of that name is alive, alive are: "
        f"{there}. Start its worker, or correct the name or address.",
        device=target,
    )


def no_answer(target: str, method: str, timeout_s: float) -> LinkError:
    """The error for a call that took too long."""
    return LinkError(
        f"Device {target!r} did not answer {method!r} within {timeout_s:g} s. "
        "Look at its worker's log, or raise the timeout.",
        device=target,
    )


def is_forked(process: int) -> bool:
    """Whether this is another process than the one that opened something, by a fork of it."""
    return os.getpid() != process


def check_process(process: int, what: str) -> None:
    """Refuse the use of another process's connections.

    Raises:
        RunError: ``process`` opened them, and this is a fork of it.
    """
    if is_forked(process):
        raise RunError(
            f"{what} belongs to process {process}: a fork of it cannot use its connections and "
            "threads. Open one here, or start the process with multiprocessing's 'spawn'."
        )


def closed(name: str) -> RunError:
    """The error for the use of an endpoint after ``close``."""
    return RunError(f"Endpoint {name!r} is closed: nothing can be sent any more.", device=name)


def answer_call(
    handler: CallHandler, caller: Caller, method: str, body: bytes
) -> tuple[bool, bytes]:
    """``(True, answer)``, or ``(False, one-line message)`` where the handler raised."""
    try:
        return True, bytes(handler(caller, method, body))
    except RunError as error:
        return False, error.message.encode()
    except Exception as error:  # the caller gets a message, whatever went wrong
        return False, f"{method} failed: {name_error(error)}".encode()


def refusal(target: str, message: bytes) -> RunError:
    """The error for a call that ``target`` answered with an error message."""
    return RunError(f"Device {target!r}: {message.decode(errors='replace')}", device=target)
