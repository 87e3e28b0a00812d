"""A snapshot for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from partita.live.snapshot import DeviceView, LinkView, Snapshot
from partita.report.tables import NOTHING, TableData, drop_empty, name_link
from partita.report.text import clean, draw_table
from partita.units import format_bandwidth, format_bytes, format_seconds

#: Letters of a bar, and rows of links and events: a terminal has about 40 rows.
_BAR, _MOST_LINKS, _MOST_EVENTS = 12, 8, 5


def draw_screen(now: Snapshot) -> RenderableType:
    """Everything of a snapshot that a terminal has room for."""
    parts: list[RenderableType] = [
        Text(clean(f"{now.title or 'a plan'}: {', '.join(_describe_requests(now))}"), style="bold"),
        *([Text(clean(f"down: {now.down}"), style="bold")] if now.down else []),
        *(Text(clean(f"{words}.")) for words in now.advice),
        draw_table(_tabulate_devices(now.devices)),
    ]
    if now.links:
        shown = now.links[:_MOST_LINKS]
        more = f", {len(shown)} of {now.link_count}" if now.link_count > len(shown) else ""
        parts.append(draw_table(_tabulate_links(shown, f"Links{more}")))
    for event in now.events[:_MOST_EVENTS]:
        ago = format_seconds(max(0.0, now.at_s - event.at_s))
        parts.append(Text(clean(f"{ago} ago: {event.text}")))
    return Group(*parts)


def _describe_requests(now: Snapshot) -> Iterator[str]:
    known = now.expected
    if now.images_per_s is not None:
        yield f"{now.images_per_s:.3g} images/s" + (
            f" ({known.images_per_s:.3g} predicted)" if known else ""
        )
    if now.p50_s is not None and now.p99_s is not None:
        yield f"p50 {format_seconds(now.p50_s)}" + (
            f" ({format_seconds(known.p50_s)} predicted)" if known else ""
        )
        yield f"p99 {format_seconds(now.p99_s)}"
    yield f"{now.answers} answered, {now.open} of {now.in_flight} under way"
    if now.waiting:
        yield f"{now.waiting} waiting"


def _tabulate_devices(devices: tuple[DeviceView, ...]) -> TableData:
    rows = tuple(
        (
            view.name,
            view.kind if view.state == "runs" else view.state,
            *_show_share(view.busy),
            _percent(view.expected),
            f"{view.queue:.1f}" if view.state == "runs" else NOTHING,
            format_bytes(view.memory_bytes) if view.memory_bytes else NOTHING,
            format_bytes(view.limit_bytes) if view.limit_bytes else NOTHING,
        )
        for view in devices
    )
    columns = ("device", "", "busy", "share", "predicted", "queue", "memory", "of")
    return drop_empty(TableData("Devices", columns, rows, text_columns=3))


def _tabulate_links(links: tuple[LinkView, ...], title: str) -> TableData:
    rows = tuple(
        (
            name_link(view.source, view.target),
            *_show_share(view.load),
            _percent(view.expected),
            format_bandwidth(view.bytes_per_s),
        )
        for view in links
    )
    columns = ("link", "load", "share", "predicted", "payload")
    return drop_empty(TableData(title, columns, rows, text_columns=2))


def _show_share(share: float | None) -> tuple[str, str]:
    filled = round(_BAR * min(share or 0.0, 1.0))
    return "█" * filled + "░" * (_BAR - filled), _percent(share)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"
