"""A join file, looked at again: who is let in changes while a process runs."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from partita.errors import ClusterError
from partita.fabric import ZenohOptions
from partita.fabric.base import IsOut
from partita.fabric.join import read_join
from partita.fabric.members import ROUTER, Member

_LOG = logging.getLogger(__name__)

#: Interval at which the file is looked at.
LOOK_S = 2.0
#: Looks after which somebody is said to be mute: others that start, or join anew, take seconds.
_MUTE_LOOKS = 4


class JoinWatch:
    """Says when a join file changes how the network is to be joined.

    Args:
        path: The file.
        network: What was made of it.
        is_idle: Whether joining anew would disturb nothing.
        shut_out: Has nothing more to do with endpoints of some names while it is not idle, where
            that can be; without it joining anew is what does so.
    """

    def __init__(
        self,
        path: Path,
        network: ZenohOptions,
        is_idle: Callable[[], bool],
        shut_out: Callable[[IsOut], None] | None = None,
    ) -> None:
        self._path, self._network, self._is_idle = path, network, is_idle
        self._shut_out = shut_out
        self._mark: object = None
        self._wanted: ZenohOptions | None = None
        self._out: set[Member] = set()

    def look(self) -> ZenohOptions | None:
        """How to join anew; None while there is no reason to.

        Who is in no more is heeded at once, all else when nothing runs.
        """
        mark = _stamp(self._path)
        if mark != self._mark:
            self._mark = mark
            self._wanted = self._read()
        wanted = self._wanted
        if wanted is None:
            return None
        if not self._is_idle():
            out = set(self._network.members) - set(wanted.members)
            if not out or self._is_shut_out(out, wanted):
                return None
        _LOG.info("join file '%s' has changed: joining anew", self._path)
        return wanted

    def _is_shut_out(self, out: set[Member], wanted: ZenohOptions) -> bool:
        """Whether some can be shut out without joining anew; if so, they are.

        Names are what tells them apart: not one that somebody else has by now, nor those under
        which a router passes things on.
        """
        names = {member.name for member in wanted.members}
        is_known_by_name = all(m.role != ROUTER and m.name not in names for m in out)
        if self._shut_out is None or not is_known_by_name:
            return False
        if out != self._out:
            self._out = out
            self._shut_out(lambda name: any(member.has_name(name) for member in out))
            _LOG.warning(
                "%s: in no more by join file '%s': nothing of theirs is taken, and nothing sent to"
                " them; this worker joins anew once it runs no plan",
                ", ".join(sorted(f"'{member.name}'" for member in out)),
                self._path,
            )
        return True

    def _read(self) -> ZenohOptions | None:
        """What the file says now; None where that is nothing new, or cannot be used."""
        try:
            found = read_join(self._path).apply(self._network, str(self._path))
        except ClusterError as error:
            _LOG.warning("%s What it said before still holds.", error.message)
            return None
        if found.cluster != self._network.cluster:
            _LOG.warning(
                "join file '%s' is of cluster '%s' now, this process stays in '%s' until it is"
                " started anew",
                self._path,
                found.cluster,
                self._network.cluster,
            )
            return None
        return None if found == self._network else found


class MembershipWatch:
    """Says in the log that others take this worker for no member, as nobody else tells it.

    Args:
        mute: Finds workers that are connected and tell this one nothing.
    """

    def __init__(self, mute: Callable[[], set[str]]) -> None:
        self._mute = mute
        self._looks: Counter[str] = Counter()
        self._told: set[str] = set()

    def look(self) -> None:
        """Tell of those that have been mute for long; of each once, until it speaks again."""
        mute = self._mute()
        self._looks = Counter({name: self._looks[name] + 1 for name in mute})
        self._told &= mute
        named = {name for name, looks in self._looks.items() if looks >= _MUTE_LOOKS} - self._told
        if named:
            self._told |= named
            _LOG.warning(
                "%s: connected, but tells this worker nothing: unless it hangs, this worker is no"
                " member by the join file there. It was revoked, or that file is older than its"
                " own (partita keys show)",
                ", ".join(f"'{name}'" for name in sorted(named)),
            )


def await_change(
    watch: JoinWatch | None, ended: threading.Event, look: Callable[[], None] = lambda: None
) -> ZenohOptions | None:
    """How to join anew, once the file says so; None where ``ended`` was set first.

    Args:
        watch: None where there is no file.
        look: Called as often as the file is looked at.
    """
    if watch is None:
        ended.wait()
        return None
    while not ended.wait(LOOK_S):
        if (network := watch.look()) is not None:
            return network
        look()
    return None


def _stamp(path: Path) -> object:
    """What changes with a file; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
