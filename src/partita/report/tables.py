"""The tables of a report as plain text cells; the command line and the page draw the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from partita.execution import DeviceUse, LinkUse, Report, StepUse
from partita.execution.critical import share_out
from partita.execution.histograms import depth_name
from partita.plan import Plan, Shard, Stage
from partita.report.bundle import Contender
from partita.units import format_bytes, format_seconds

NOTHING = "–"
#: Devices that have a column each in a plan's table: more do not fit beside each other, by names of
#: ten letters in 140 columns. Not tuned.
_MOST_COLUMNS = 8
#: Links that a table names: devices that all send to each other have hundreds. Not tuned.
_MOST_LINKS = 40
#: Parts of a critical path below it are summed up. A round number, not tuned.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class TableData:
    """A titled table: the first ``text_columns`` columns are words, the rest numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


#: Heading of the plan that a run ended with, where that is not the one that it began with.
LAST_PLAN = "Plan in force at the end"


def tabulate_plan(plan: Plan, order: Sequence[str] = (), *, title: str = "Plan") -> TableData:
    """One row per stage: its layers, its split axis, and each device's share of it.

    Devices have columns of their own where they are few; else one column names those of each share.

    Args:
        order: Names of devices in the order of their columns; others follow as they are used.
    """
    used = dict.fromkeys(
        shard.device for stage in plan.stages for shard in (*stage.shards, *stage.merge)
    )
    devices = list(dict.fromkeys([*(name for name in order if name in used), *used]))
    is_wide = len(devices) > _MOST_COLUMNS
    rows = []
    for stage in plan.stages:
        shares = describe_shares(stage)
        cells = [shares.get(device, NOTHING) for device in devices]
        own = (_gather_shares(shares, devices),) if is_wide else cells
        axis = stage.axis.replace("_", " ")
        rows.append((stage.name, describe_layers(stage.layers), axis, *own))
    columns = ("stage", "layers", "axis", *(("devices",) if is_wide else devices))
    return TableData(title, columns, tuple(rows), text_columns=4 if is_wide else 3)


def _gather_shares(shares: Mapping[str, str], order: Sequence[str]) -> str:
    """The devices of each share, in one cell."""
    gathered: dict[str, list[str]] = {}
    for device in (name for name in order if name in shares):
        gathered.setdefault(shares[device], []).append(device)
    return "; ".join(f"{share}: {', '.join(names)}" for share, names in gathered.items())


def describe_layers(layers: Sequence[str]) -> str:
    """First and last layer with their number.

    >>> describe_layers(["conv1", "conv2", "pool"])
    'conv1 … pool (3)'
    """
    if len(layers) < 2:
        return "".join(layers) or NOTHING
    return f"{layers[0]} … {layers[-1]} ({len(layers)})"


def describe_shares(stage: Stage) -> dict[str, str]:
    """The part of a stage on each device that has one: a percentage, or in words.

    Percentages of a few devices add up to 100.
    """
    words: dict[str, list[str]] = {}
    if stage.axis in ("none", "everywhere"):
        words = {shard.device: ["whole"] for shard in stage.shards}
    elif stage.axis == "replica":
        parts = Counter[str]()
        for shard, part in zip(stage.shards, stage.shares, strict=False):
            parts[shard.device] += part
        shown = _show_percents(parts)
        for shard in stage.shards:
            words[shard.device] = [f"replica {shown.get(shard.device, '')}".rstrip()]
    else:
        cells = Counter[str]()
        for shard in stage.shards:
            cells[shard.device] += _count_cells(shard)
        words = {device: [percent] for device, percent in _show_percents(cells).items()}
    for device in dict.fromkeys(shard.device for shard in stage.merge):
        words.setdefault(device, []).append("merge")
    return {device: " + ".join(parts) for device, parts in words.items()}


def _show_percents(parts: Mapping[str, int]) -> dict[str, str]:
    """What each part is of all, in whole percents; parts of nothing are left out.

    They add up to 100: largest remainders are rounded up, the first of equal ones. Of many parts
    each is rounded by itself, so that equal ones stay equal: nobody adds them up.

    >>> _show_percents({"a": 1, "b": 1, "c": 1, "d": 0})
    {'a': '34 %', 'b': '33 %', 'c': '33 %'}
    """
    held = {name: part for name, part in parts.items() if part}
    total = sum(held.values())
    if len(held) > _MOST_COLUMNS:
        percents = {name: round(100 * part / total) for name, part in held.items()}
    else:
        percents = {name: 100 * part // total for name, part in held.items()}
        by_remainder = sorted(held, key=lambda name: -(100 * held[name] % total))
        for name in by_remainder[: 100 - sum(percents.values())]:
            percents[name] += 1
    if len(held) > 1:  # who has all leaves nothing for the others
        percents = {name: min(percent, 99) for name, percent in percents.items()}
    return {name: f"{percent} %" if percent else "< 1 %" for name, percent in percents.items()}


def _count_cells(shard: Shard) -> int:
    return sum(box.size for box in shard.boxes.values())


def tabulate_run(predicted: Report | None, measured: Report | None) -> TableData:
    """Latency and throughput, predicted beside measured."""
    figures: tuple[tuple[str, Callable[[Report], float]], ...] = (
        ("latency, mean", lambda report: report.mean_s),
        ("latency, p50", lambda report: report.quantile_s(0.5)),
        ("latency, p99", lambda report: report.quantile_s(0.99)),
        ("makespan", lambda report: report.makespan_s),
        ("images per second", lambda report: report.images_per_second),
    )
    rows = []
    for name, figure in figures:
        values = [figure(run) if run and run.latencies_s else None for run in (predicted, measured)]
        show = _format_rate if name.startswith("images") else format_seconds
        rows.append((name, *(_show(value, show) for value in values), describe_change(*values)))
    title = f"Run of {count_requests(predicted, measured)}"
    if any(run and len(run.latencies_s) > 1 for run in (predicted, measured)):
        title += ", first and last included"
    return drop_empty(TableData(title, ("", "predicted", "measured", "difference"), tuple(rows)))


def drop_empty(data: TableData) -> TableData:
    """The table without number columns that hold nothing in any row."""
    kept = [
        index
        for index in range(len(data.columns))
        if index < data.text_columns or any(row[index] != NOTHING for row in data.rows)
    ]
    return TableData(
        data.title,
        tuple(data.columns[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in data.rows),
        data.text_columns,
    )


def count_requests(predicted: Report | None, measured: Report | None) -> str:
    """The number of requests of a run, in words."""
    counts = [len(run.latencies_s) for run in (predicted, measured) if run]
    words = [f"{count} request{'' if count == 1 else 's'}" for count in dict.fromkeys(counts)]
    return " and ".join(words) or "0 requests"


def tabulate_devices(predicted: Report | None, measured: Report | None) -> TableData:
    """Busy seconds and peak memory per device."""
    runs = [{use.name: use for use in run.devices} if run else {} for run in (predicted, measured)]
    rows = []
    for name in dict.fromkeys([*runs[0], *runs[1]]):
        uses: list[DeviceUse | None] = [run.get(name) for run in runs]
        busy = [use.busy_s if use else None for use in uses]
        memory = [use.peak_memory_bytes if use else None for use in uses]
        rows.append(_pair(name, busy, format_seconds) + _pair("", memory, format_bytes)[1:3])
    columns = ("device", "busy, predicted", "measured", "difference", "memory, predicted")
    return drop_empty(TableData("Devices", (*columns, "measured"), tuple(rows)))


def tabulate_path(predicted: Report | None, measured: Report | None) -> TableData:
    """What the latency of a typical request is made of, along its critical path."""
    runs = [_name_parts(run) if run else {} for run in (predicted, measured)]
    rows = []
    for name in dict.fromkeys([*runs[1], *runs[0]]):
        shares = [_show_share(run.get(name), sum(run.values())) for run in runs]
        times = _pair(name, [run.get(name) for run in runs], format_seconds)
        rows.append((name, times[1], shares[0], times[2], shares[1], times[3]))
    columns = ("what decides", "predicted", "share", "measured", "share", "difference")
    return drop_empty(TableData("Critical path of a typical request", columns, tuple(rows)))


def _name_parts(report: Report) -> dict[str, float]:
    """Seconds per part by its name, parts of less than a hundredth together at the end."""
    shares = share_out(report)
    least_s = _LEAST_SHARE * sum(shares.values())
    named = {name_part(*key): seconds for key, seconds in shares.items() if seconds >= least_s}
    rest_s = sum(seconds for seconds in shares.values() if seconds < least_s)
    return named | ({"all else": rest_s} if rest_s else {})


def describe_path(report: Report) -> str:
    """The largest parts of a typical request's latency, in words; empty where none are known."""
    shares = share_out(report)
    whole_s = sum(shares.values())
    if whole_s <= 0:
        return ""
    kinds = {"compute": 0.0, "transfer": 0.0, "wait": 0.0}
    counted = {"handle": "wait", "feed": "transfer"}
    for (kind, _), seconds in shares.items():
        kinds[counted.get(kind, kind)] += seconds / whole_s
    largest, seconds = next(iter(shares.items()))
    return (
        f"{name_part(*largest)} takes {seconds / whole_s:.0%} of the latency; in all computing"
        f" {kinds['compute']:.0%}, transfers {kinds['transfer']:.0%}, waiting {kinds['wait']:.0%}"
    )


def name_part(kind: str, where: Sequence[str]) -> str:
    """A part of a critical path for people."""
    if kind == "transfer":
        return f"{name_link(where[0], where[-1])} transfers"
    if kind == "feed":
        return f"leader ↔ {where[0]} transfers"
    verbs = {"compute": "computing", "handle": "messages", "wait": "waiting"}
    return f"{where[0]} {verbs[kind]}"


def _show_share(value: float | None, whole: float) -> str:
    return NOTHING if value is None or whole <= 0 else f"{value / whole:.0%}"


def tabulate_links(predicted: Report | None, measured: Report | None) -> TableData:
    """Bytes per link, and the busy seconds of its sender; the links of most bytes of very many."""
    runs = [
        {(use.source, use.target): use for use in run.links} if run else {}
        for run in (predicted, measured)
    ]
    keys = {*runs[0], *runs[1]}
    most = {key: max(run[key].bytes for run in runs if key in run) for key in keys}
    shown = sorted(keys, key=lambda key: (-most[key], key))[:_MOST_LINKS]
    more = f", {len(shown)} of {len(keys)}: most bytes" if len(shown) < len(keys) else ""
    rows = []
    for key in sorted(shown):
        uses: list[LinkUse | None] = [run.get(key) for run in runs]
        moved = [use.bytes if use else None for use in uses]
        busy = [use.busy_s if use else None for use in uses]
        name = name_link(*key)
        rows.append(_pair(name, moved, format_bytes)[:3] + _pair("", busy, format_seconds)[1:])
    columns = ("link", "bytes, predicted", "measured", "busy, predicted", "measured", "difference")
    return drop_empty(TableData("Links" + more, columns, tuple(rows)))


def tabulate_queues(predicted: Report | None, measured: Report | None) -> TableData:
    """How many others steps found on their lane, of lanes where some found any."""
    runs = [
        {(use.device, use.lane): use.found for use in run.queues} if run else {}
        for run in (predicted, measured)
    ]
    rows = [
        (f"{device} {lane.replace(':', ' → ')}", *(_show_depths(run.get(key)) for run in runs))
        for key in dict.fromkeys([*runs[0], *runs[1]])
        if any(any(run.get(key, ())[1:]) for run in runs)
        for device, lane in [key]
    ]
    columns = ("others before a step on its lane", "predicted", "measured")
    return drop_empty(TableData("Queues", columns, tuple(rows)))


def _show_depths(found: Sequence[int] | None) -> str:
    """The share of each depth, as far as there is any."""
    if not found or not any(found):
        return NOTHING
    shares = ((depth_name(n), count / sum(found)) for n, count in enumerate(found) if count)
    return ", ".join(f"{name}: {share:.0%}" for name, share in shares)


def tabulate_steps(predicted: Report | None, measured: Report | None) -> TableData:
    """Seconds of each step that computes: medians, and what few runs exceed."""
    runs = [
        {(use.device, use.label): use for use in run.steps} if run else {}
        for run in (predicted, measured)
    ]
    rows = []
    for device, label in dict.fromkeys([*runs[0], *runs[1]]):
        uses: list[StepUse | None] = [run.get((device, label)) for run in runs]
        median = _pair("", [use.p50_s if use else None for use in uses], format_seconds)[1:]
        last = uses[1]
        slow = [_show(value, format_seconds) for value in (last.p90_s, last.p99_s)] if last else ()
        rows.append((device, label, *median, *(slow or (NOTHING, NOTHING))))
    columns = ("device", "step", "predicted", "measured, p50", "difference", "p90", "p99")
    return drop_empty(TableData("Steps", columns, tuple(rows), text_columns=2))


def tabulate_comparison(contenders: Sequence[Contender]) -> TableData:
    """One row per planner, the fastest first, those without a plan last.

    Of runs with requests that wait for each other it says so, and that they fill and drain.
    """
    requests = max((row.requests for row in contenders), default=1)
    rows = tuple(
        (
            row.planner,
            row.status or NOTHING,
            _show(row.predicted_s, format_seconds),
            _show(row.measured_s, format_seconds),
            describe_change(row.predicted_s, row.measured_s),
            _show(row.images_per_second, _format_rate),
            _show(row.sustained_per_second, _format_rate),
            _show(row.moved_bytes, format_bytes),
            _show(row.search_s, format_seconds),
            row.inexact or NOTHING,
            NOTHING if row.accuracy is None else f"{row.accuracy.value:.4g}",
            NOTHING if row.accuracy is None else f"{100 * row.accuracy.drop:.1f} %",
        )
        for row in sort_contenders(contenders)
    )
    is_loaded = requests > 1
    columns = (
        *("planner", "status", "predicted under load" if is_loaded else "predicted"),
        *("measured", "difference"),
        f"images/s of {requests} requests" if is_loaded else "images/s",
        *("images/s in the long run", "moved", "search", "not exact", "accuracy", "drop"),
    )
    return drop_empty(TableData("Planners", columns, rows, text_columns=2))


def sort_contenders(contenders: Sequence[Contender]) -> list[Contender]:
    """The contenders by latency: measured where there is one, else predicted."""

    def latency_s(row: Contender) -> float:
        known = [value for value in (row.measured_s, row.predicted_s) if value is not None]
        return known[0] if known else float("inf")

    return sorted(contenders, key=lambda row: (latency_s(row), row.planner))


def name_link(source: str, target: str) -> str:
    """A link's name for people."""
    return f"{source} → {target}"


def describe_change(predicted: float | None, measured: float | None) -> str:
    """The deviation of the measured value from the predicted one.

    >>> describe_change(0.1, 0.103)
    '+3.0 %'
    """
    if predicted is None or measured is None or predicted == 0:
        return NOTHING
    return f"{100 * (measured / predicted - 1):+.1f} %"


def _pair(
    name: str, values: Sequence[float | None], show: Callable[[float], str]
) -> tuple[str, ...]:
    predicted, measured = values
    change = describe_change(predicted, measured)
    return (name, _show(predicted, show), _show(measured, show), change)


def _show(value: float | None, show: Callable[[float], str]) -> str:
    return NOTHING if value is None else show(value)


def _format_rate(value: float) -> str:
    return f"{value:.3g}"
