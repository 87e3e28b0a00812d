"""Child models as the paper ships them: files of their own that load at the same time.

The paper is the one on reinforcement-learned modularization for fast loading; what Partita ships
instead is a bundle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


class Chain:
    """Models that each answer what the next ones ask; all are loaded when it is made.

    Args:
        files: In order.
        open_one: Returns the engine's session of a file.
        in_turn: Whether they load one after the other; else each has a thread.

    Attributes:
        parts_s: Seconds in which each was loaded.
    """

    def __init__(
        self, files: Sequence[Path], open_one: Callable[[Path], Any], *, in_turn: bool = False
    ) -> None:
        self.parts_s = [0.0] * len(files)
        self._sessions: list[Any] = [None] * len(files)

        def load(place: int) -> None:
            began_s = time.perf_counter()
            self._sessions[place] = open_one(files[place])
            self.parts_s[place] = time.perf_counter() - began_s

        run_all(load, len(files), in_turn=in_turn)

    def run(self, names: None, feeds: Mapping[str, Array]) -> list[Array]:
        """What the last model answers."""
        held, answers = dict(feeds), []
        for session in self._sessions:
            wanted = {value.name: held[value.name] for value in session.get_inputs()}
            answers = list(session.run(None, wanted))
            outputs = [value.name for value in session.get_outputs()]
            held |= dict(zip(outputs, answers, strict=True))
        return answers


def run_all(work: Callable[[int], None], count: int, *, in_turn: bool) -> None:
    """Call ``work`` with 0, 1, and so on: a thread each, the first in this one; or in turn.

    What it raises in a thread is raised here, when all have ended.
    """
    faults: list[BaseException] = []

    def attempt(place: int) -> None:
        try:
            work(place)
        except BaseException as fault:
            faults.append(fault)

    if in_turn:
        for place in range(count):
            work(place)
        return
    threads = [threading.Thread(target=attempt, args=(place,)) for place in range(1, count)]
    for thread in threads:
        thread.start()
    attempt(0)
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
