"""Small faults in one way of pricing, each of which the law of pricing must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from partita.execution import LinkClocks
from partita.planners.pricing import events, incremental, placement, tasks, transfers
from partita.planners.pricing.incremental import IncrementalPricer
from partita.planners.pricing.pricing_state import (
    Arrival,
    PricingState,
)
from partita.planners.pricing.tasks import TaskBuilder
from partita.planners.pricing.transfers import Transfer, TransferCosts


def _without(field: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a fault: a part of a message's time is forgotten."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        move = TransferCosts._move

        def forgetful(*args: Any) -> Transfer | None:
            found = move(*args)
            return None if found is None else found._replace(**{field: 0.0})

        patch.setattr(TransferCosts, "_move", forgetful)

    return plant


def _raw_on_the_wire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        transfers, "wire_bytes", lambda shape, dtype, _: transfers.type_bytes(dtype) * shape[0]
    )


def _owners_unsorted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transfers, "nearest_first", lambda owners, _: owners)


def _local_copy_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(placement, "use_held", lambda _, box, held: ([], [box]))


def _fetched_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(placement.Holdings, "put", lambda *_: None)


def _overtaking_allowed(patch: pytest.MonkeyPatch) -> None:
    begin = PricingState.__init__

    def unordered(self: PricingState, devices: int) -> None:
        begin(self, devices)
        self.ordered = False

    patch.setattr(PricingState, "__init__", unordered)


def _overtaking_on_links_allowed(patch: pytest.MonkeyPatch) -> None:
    send = IncrementalPricer._send

    def unordered(state: PricingState, move: Transfer, made_s: float) -> float:
        before, state.ordered = state.ordered, False
        try:
            return send(state, move, made_s)
        finally:
            state.ordered = before

    patch.setattr(IncrementalPricer, "_send", staticmethod(unordered))


def _dead_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TaskBuilder, "_dying", lambda self, stage: frozenset(self._outline.live(stage.start))
    )


def _sums_die_too_soon(patch: pytest.MonkeyPatch) -> None:
    finish = TaskBuilder._finish
    patch.setattr(TaskBuilder, "_finish", lambda self, made, stage, *_: finish(self, made, stage))


def _kept_tensors_travel(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskBuilder, "is_kept", lambda *_: False)


def _mediums_not_shared(patch: pytest.MonkeyPatch) -> None:
    clocks = type("Clocks", (LinkClocks,), {"is_shared": lambda *_: False})
    patch.setattr(events, "LinkClocks", clocks)


def _ports_not_shared(patch: pytest.MonkeyPatch) -> None:
    made = LinkClocks._make

    def forgetful(self: LinkClocks, pair: tuple[str, str]) -> Any:
        spec = self._links[pair]
        ports = tuple(port._replace(name=f"{pair} {port.name}") for port in spec.ports)
        self._links = {**self._links, pair: replace(spec, ports=ports)}
        return made(self, pair)

    patch.setattr(events, "LinkClocks", type("Clocks", (LinkClocks,), {"_make": forgetful}))


def _ports_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(incremental, "_pass_ports", lambda *_: 0.0)


def _ports_take_any_order(patch: pytest.MonkeyPatch) -> None:
    given = incremental._pass_ports

    def unordered(state: PricingState, move: Transfer, given_s: float) -> float:
        before, state.ordered = state.ordered, False
        try:
            return given(state, move, given_s)
        finally:
            state.ordered = before

    patch.setattr(incremental, "_pass_ports", unordered)


def _one_request_in_memory(patch: pytest.MonkeyPatch) -> None:
    begin = IncrementalPricer.__init__

    def forgetful(self: IncrementalPricer, *args: Any) -> None:
        begin(self, *args)
        self._in_flight = 1

    patch.setattr(IncrementalPricer, "__init__", forgetful)


def _decoding_side_by_side(patch: pytest.MonkeyPatch) -> None:
    def at_once(_: Any, __: int, arrivals: list[Arrival]) -> None:
        for one in arrivals:
            one.ready_s[one.piece] = one.there_s + one.decode_s

    patch.setattr(incremental, "_decode", at_once)


def _some_channels_count_as_all(patch: pytest.MonkeyPatch) -> None:
    fetch_box = placement.DevicePieces._fetch_box

    def forgetful(self: Any, *args: Any) -> Any:
        fetch = fetch_box(self, *args)
        if fetch is None or fetch.after is None or self._spans is None:
            return fetch
        spans = tuple(box.bounds[self._owned.axis] for box in fetch.after._boxes)
        after = placement.DevicePieces(self._owned, self._device, (), spans)
        return fetch._replace(after=after)

    patch.setattr(placement.DevicePieces, "_fetch_box", forgetful)


def _limits_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("partita.planners.pricing.constraints.Constraints.surely_allow", lambda *_: True)


def _whole_input_for_each_shard(patch: pytest.MonkeyPatch) -> None:
    begin = tasks.ShardWork.__init__

    def greedy(self: Any, work: Any, *args: Any) -> None:
        begin(self, work, *args)
        self.reads = tuple(
            (tensor, box.with_axis(len(box.bounds) - 1, (0, box.bounds[-1][1])), number)
            for tensor, box, number in self.reads
        )

    patch.setattr(tasks.ShardWork, "__init__", greedy)


def _sums_of(change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a fault: tasks of an input split are those of another."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        add = TaskBuilder._sum

        def other(self: Any, stage: Any, owner: Any) -> Any:
            return add(self, change(stage) if stage.axis == "input_channels" else stage, owner)

        patch.setattr(TaskBuilder, "_sum", other)

    return plant


FAULTS = {
    "encoding forgotten": _without("encode_s"),
    "decoding forgotten": _without("decode_s"),
    "latency forgotten": _without("latency_s"),
    "cost per message forgotten": _without("per_message_s"),
    "lossy wires at full size": _raw_on_the_wire,
    "owners not sorted by rate": _owners_unsorted,
    "own copy not used": _local_copy_ignored,
    "what was fetched is not kept": _fetched_not_kept,
    "overtaking not noticed": _overtaking_allowed,
    "overtaking on links not noticed": _overtaking_on_links_allowed,
    "decoding side by side": _decoding_side_by_side,
    "some channels count as all": _some_channels_count_as_all,
    "tensors die too soon": _dead_too_soon,
    "sums die too soon": _sums_die_too_soon,
    "kept tensors travel": _kept_tensors_travel,
    "a shared medium for each link": _mediums_not_shared,
    "a port for each link": _ports_not_shared,
    "ports forgotten in one pass": _ports_forgotten,
    "ports in any order in one pass": _ports_take_any_order,
    "memory of one request": _one_request_in_memory,
    "energy limits forgotten": _limits_forgotten,
    "whole columns for each tile": _whole_input_for_each_shard,
    "sums added by the first only": _sums_of(lambda one: replace(one, merge=one.merge[:1])),
    "parts of sums in reverse": _sums_of(lambda one: one.with_widths(one.widths[::-1])),
}
