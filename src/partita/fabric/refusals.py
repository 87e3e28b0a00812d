"""Who was refused a connection, told in this process's own log.

Zenoh lets nothing in from somebody without a certificate that is trusted, or who is no member, and
tells nobody but its own log, which it writes to standard output. So that leads here, as long as
somebody listens; what else is written there goes on. What a member says under another's name is
dropped without a line even there, but at a level that has lines for every message.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import zenoh

_LOG = logging.getLogger(__name__)

#: What of Zenoh's log is wanted: lines per connection, none per message.
_WANTED = "zenoh::net::routing::interceptor::access_control=info,zenoh_link_tls::unicast=warn"
_FILTER = "RUST_LOG"
#: One line for all that is refused alike within so long: who is refused often tries on and on.
_QUIET_S = 60.0
#: Kinds of refusals that are told apart; whoever draws names anew makes no more lines than this.
_MOST_KINDS = 100
#: Names and reasons may be as long, and hold what, their sender likes.
_MOST_LETTERS = 160
#: Looks for a connection that Zenoh is just making. Not tuned.
_LOOKS, _LOOK_S = 10, 0.05
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OF_ZENOH = re.compile(r"\S+Z +(TRACE|DEBUG|INFO|WARN|ERROR) ")
_UNKNOWN = re.compile(r"(\w+) did not match any configured ACL subject")
_UNTRUSTED = re.compile(r"zenoh_link_tls::unicast: (.+?)(?:\. Hint: .*)?$")
#: What ends a handshake without a word on credentials: a peer that looks whether somebody listens,
#: closes while it connects, or is cut off.
_BROKEN_OFF = re.compile(r"handshake eof|\(os error \d+\)")

#: Says whose certificate the process of an identity has; empty where nobody knows.
FindOwner = Callable[[str], str]


def read_refusal(line: str, find_owner: FindOwner) -> str:
    """The refusal that a line of Zenoh's log tells of, in words; none where it tells of none."""
    text = _COLOURS.sub("", line).strip()
    if unknown := _UNKNOWN.search(text):
        who = _name(unknown[1], find_owner)
        return f"{who}: no member, by this join file: it was revoked, or let in since"
    untrusted = _UNTRUSTED.search(text)
    if untrusted and not _BROKEN_OFF.search(untrusted[1]):
        return f"a connection without a certificate that is trusted here: {_show(untrusted[1])}"
    return ""


def _await_owner(find_owner: FindOwner, identity: str) -> str:
    """Whose a connection is that is refused just now: it is listed in a moment."""
    for _ in range(_LOOKS):
        if owner := find_owner(identity):
            return owner
        time.sleep(_LOOK_S)
    return ""


def _name(identity: str, find_owner: FindOwner) -> str:
    owner = find_owner(identity)
    return f"the owner of certificate '{_show(owner)}'" if owner else f"process {identity}"


def _show(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text.strip()[:_MOST_LETTERS])


class Refusals:
    """Tells of each kind of refusal once in a while, with how often it was repeated meanwhile."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def note(self, words: str, now_s: float) -> str:
        """What to tell of one more refusal at a time; empty where it was told of just now."""
        told_s, repeated = self._told.pop(words, (-_QUIET_S, 0))
        if now_s - told_s < _QUIET_S:
            self._told[words] = (told_s, repeated + 1)
            return ""
        self._told = {kind: told for kind, told in self._told.items() if now_s - told[0] < _QUIET_S}
        if len(self._told) >= _MOST_KINDS:
            return ""
        self._told[words] = (now_s, 0)
        return words + (f" ({repeated} more since that was told)" if repeated else "")


@contextlib.contextmanager
def hear_refusals(find_owner: FindOwner) -> Iterator[None]:
    """Log a warning for what Zenoh refuses in this process until the context ends.

    Zenoh's log begins once in a process, by the filter ``RUST_LOG``, whose own wishes stay.
    """
    read, write = os.pipe()
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(write, 1)
    os.close(write)
    wished = os.environ.get(_FILTER, "")
    os.environ[_FILTER] = f"{wished},{_WANTED}" if wished else _WANTED
    given = (read, out, partial(_await_owner, find_owner), bool(wished))
    listener = threading.Thread(target=_listen, args=given, name="refusals", daemon=True)
    listener.start()
    zenoh.try_init_log_from_env()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(out, 1)  # the pipe's last writer is gone: the listener ends
        listener.join()
        os.close(out)


def _listen(read: int, out: int, find_owner: FindOwner, is_wished: bool) -> None:
    """Read all that is written, and pass on what is not only here for us."""
    refusals = Refusals()
    with open(read, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = read_refusal(line, find_owner)
            if not words:
                if is_wished or not _OF_ZENOH.match(_COLOURS.sub("", line)):
                    os.write(out, line.encode())
            elif told := refusals.note(words, time.monotonic()):
                _LOG.warning("refused: %s", told)
