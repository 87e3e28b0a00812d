"""The plans of a session that are known by name: those that were used last."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from partita.cost import MemoryUse
from partita.plan import Plan, hash_plan
from partita.recent import Recent

#: A service that adapts for months finds ever more plans. Some 20 kB each.
_MOST = 256


@dataclass(frozen=True)
class _Known:
    """A plan, its hash, and what each device holds of it."""

    plan: Plan
    plan_hash: str
    memory: Mapping[str, MemoryUse]


class KnownPlans:
    """Plans by their keys, and by the hashes that their programs have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key = Recent[str, _Known](_MOST)
        self._by_hash = Recent[str, _Known](_MOST)

    def get(self, key: str, plan: Plan) -> Plan:
        """The plan that is known by a key; ``plan`` where none is."""
        known = self._by_key.get(key)
        return plan if known is None else known.plan

    def __getitem__(self, key: str) -> Plan:
        return self._by_key[key].plan

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def add(self, key: str, plan: Plan, memory: Mapping[str, MemoryUse]) -> None:
        """Know a plan by its key."""
        self._note(key, _Known(plan, hash_plan(plan), memory))

    def touch(self, key: str) -> None:
        """Let a plan that is in use be the last one to be forgotten."""
        self._note(key, self._by_key[key])

    def _note(self, key: str, known: _Known) -> None:
        with self._lock:
            self._by_key[key] = self._by_hash[known.plan_hash] = known

    def find(self, plan_hash: str) -> Plan:
        """The plan with a hash.

        Raises:
            KeyError: There was none, or many plans ago.
        """
        return self._by_hash[plan_hash].plan

    def find_all(self, plan_hashes: Iterable[str]) -> list[Plan]:
        """The plans with some hashes, in order, less those that are forgotten."""
        known = [self._by_hash.get(each) for each in plan_hashes]
        return [each.plan for each in known if each is not None]

    def memory(self, plan_hash: str) -> Mapping[str, MemoryUse]:
        """What each device holds of the plan with a hash."""
        return self._by_hash[plan_hash].memory
