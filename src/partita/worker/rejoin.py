"""A join file, looked at again: who is let in changes while a process runs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from partita.errors import ClusterError
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join

_LOG = logging.getLogger(__name__)

#: Interval at which the file is looked at.
LOOK_S = 2.0


class JoinWatch:
    """Says when a join file changes how the network is to be joined.

    Args:
        path: The file.
        network: What was made of it.
        is_idle: Whether joining anew would disturb nothing.
    """

    def __init__(self, path: Path, network: ZenohOptions, is_idle: Callable[[], bool]) -> None:
        self._path, self._network, self._is_idle = path, network, is_idle
        self._mark: object = None
        self._wanted: ZenohOptions | None = None

    def look(self) -> ZenohOptions | None:
        """How to join anew; None while there is no reason to.

        Who is in no more is heeded at once, all else when nothing runs.
        """
        mark = _stamp(self._path)
        if mark != self._mark:
            self._mark = mark
            self._wanted = self._read()
        wanted = self._wanted
        if wanted is None or not (self._shuts_out(wanted) or self._is_idle()):
            return None
        _LOG.info("join file '%s' has changed: joining anew", self._path)
        return wanted

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

    def _shuts_out(self, wanted: ZenohOptions) -> bool:
        """Whether somebody may do less than before."""
        return not set(self._network.members) <= set(wanted.members)


def await_change(watch: JoinWatch | None, ended: threading.Event) -> ZenohOptions | None:
    """How to join anew, once the file says so; None where ``ended`` was set first.

    Args:
        watch: None where there is no file.
    """
    if watch is None:
        ended.wait()
        return None
    while not ended.wait(LOOK_S):
        if (network := watch.look()) is not None:
            return network
    return None


def _stamp(path: Path) -> object:
    """What changes with a file; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
