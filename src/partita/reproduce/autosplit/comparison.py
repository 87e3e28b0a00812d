"""All methods on one model in one setting, kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import TypeVar

import msgspec

from partita.reproduce.autosplit.methods import Answer, Case, is_clear, is_told_apart
from partita.reproduce.autosplit.setting import CLOUD, EDGE, WIDTHS, Setting
from partita.reproduce.autosplit.subject import Subject
from partita.reproduce.bench import Bench
from partita.reproduce.cache import code_digest

#: What is kept.
Kept = TypeVar("Kept")


class Compared(msgspec.Struct, frozen=True):
    """The methods' answers.

    Attributes:
        uniform: All on the edge, by width; what does not fit is left out.
        auto: AUTO-SPLIT, its outputs 20 dB above what rounding changes.
    """

    cloud: Answer
    uniform: dict[int, Answer]
    neurosurgeon: Answer
    qdmp: Answer
    auto: Answer

    @property
    def rivals(self) -> dict[str, Answer]:
        """What AUTO-SPLIT is compared with (section 5.3)."""
        u8 = {"U8": self.uniform[8]} if 8 in self.uniform else {}
        return {"CLOUD16": self.cloud, "Neurosurgeon": self.neurosurgeon, "QDMP": self.qdmp, **u8}


class Closer(msgspec.Struct, frozen=True):
    """What is looked at in the paper's own setting alone.

    Attributes:
        strict: AUTO-SPLIT, 20 dB of what differs from picture to picture above what rounding
            changes.
        dads_s: Seconds of DADS's cut, on the network as it is written.
        neurosurgeon_s: Seconds of the best place of that network's order.
    """

    strict: Answer
    dads_s: float
    neurosurgeon_s: float


def compare(bench: Bench, name: str, setting: Setting) -> Compared:
    """The answers of all methods, kept or new."""

    def find() -> Compared:
        case = Case(find_subject(bench, name), setting)
        uniform = {width: case.edge_only(width) for width in WIDTHS}
        return Compared(
            cloud=case.cloud_only(),
            uniform={width: answer for width, answer in uniform.items() if answer is not None},
            neurosurgeon=case.neurosurgeon(),
            qdmp=case.qdmp(),
            auto=case.auto_split(is_clear),
        )

    return keep(bench, "methods", (name, setting), Compared, find)


def look_closer(bench: Bench, name: str) -> Closer:
    """The stricter answer, and cuts of the network as it is written, kept or new."""

    def find() -> Closer:
        case = Case(find_subject(bench, name), Setting())
        strict = case.auto_split(is_told_apart)
        return Closer(strict, case.dads_s(), case.plain_neurosurgeon_s())

    return keep(bench, "closer", (name, Setting()), Closer, find)


def keep(
    bench: Bench, what: str, case: tuple[str, Setting], kind: type[Kept], find: Callable[[], Kept]
) -> Kept:
    """A result of one model and setting, kept or new."""
    name, setting = case
    key = {
        "what": f"autosplit {what}",
        "model": name,
        "setting": {key: str(value) for key, value in asdict(setting).items()},
        "arrays": [EDGE, CLOUD],
        "code": code_digest(),
    }
    bench.advance(f"{name} at {setting.uplink_mbit_s:g} Mbit/s")
    found = bench.cache.get(key, kind)
    if found is None:
        found = find()
        bench.cache.put(key, found)
    return found


@lru_cache(maxsize=1)
def find_subject(bench: Bench, name: str) -> Subject:
    """A model with what was found of it so far; one at a time, as they are large."""
    return Subject(bench, name)
