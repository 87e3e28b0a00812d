"""Changes of who takes part in a divided stage, and in what order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from partita.planners.drafts.draft import Draft, DraftStage, share_cuts

#: Of so many devices all pairs are swapped; of more, neighbours only.
_MOST_SWAPPED = 5


def device_moves(draft: Draft, devices: Sequence[str]) -> Iterator[Draft]:
    """Yield drafts with devices swapped, exchanged for others, or taken in.

    Each change is made in all divided stages together; those of one stage alone follow.
    """
    crews = list(dict.fromkeys(stage.devices for stage in draft if stage.cuts))
    used = list(dict.fromkeys(device for crew in crews for device in crew))
    pairs = combinations(range(len(used)), 2)
    for a, b in pairs:
        if len(used) <= _MOST_SWAPPED or b == a + 1:
            yield from _swapped(draft, used[a], used[b])
    free = [device for device in devices if device not in used]
    for new in free:
        for old in used:
            yield _renamed(draft, {old: new})
    for new in devices:
        yield from _joined(draft, new)


def _swapped(draft: Draft, one: str, other: str) -> Iterator[Draft]:
    """Yield the draft with two devices in each other's place, and with their rows as well."""
    exchanged = _renamed(draft, {one: other, other: one})
    if exchanged != draft:
        yield exchanged
    moved = tuple(_with_rows(stage, one, other) for stage in draft)
    if moved != draft:
        yield moved


def _renamed(draft: Draft, names: dict[str, str]) -> Draft:
    return tuple(
        replace(stage, devices=tuple(names.get(device, device) for device in stage.devices))
        if stage.cuts
        else stage
        for stage in draft
    )


def _with_rows(stage: DraftStage, one: str, other: str) -> DraftStage:
    """The stage with two devices in each other's place, each with the rows it had."""
    if stage.axis == "tiles" or not {one, other} <= set(stage.devices) or not stage.cuts:
        return stage
    widths = dict(zip(stage.devices, stage.widths, strict=True))
    names = {one: other, other: one}
    devices = tuple(names.get(device, device) for device in stage.devices)
    return replace(stage, devices=devices).with_widths(widths[device] for device in devices)


def join_device(draft: Draft, new: str) -> Draft:
    """The draft with a device at the end of all divided stages that lack it."""
    return tuple(_with(stage, new) for stage in draft)


def _joined(draft: Draft, new: str) -> Iterator[Draft]:
    """Yield the draft with a device at the end of all divided stages, and of each."""
    changed = join_device(draft, new)
    if changed != draft:
        yield changed
    for index, stage in enumerate(draft):
        if changed[index] != stage:
            yield (*draft[:index], changed[index], *draft[index + 1 :])


def _with(stage: DraftStage, new: str) -> DraftStage:
    """The stage with a fair share for one more device."""
    if new in stage.devices or stage.axis == "tiles" or not stage.cuts:
        return stage
    widths = stage.widths
    shares = [*widths, sum(widths) / len(widths) / 2]
    return replace(stage, devices=(*stage.devices, new), cuts=share_cuts(shares, stage.cuts[-1]))
