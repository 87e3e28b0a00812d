"""The tables and pictures of ``benchmarks.growth``, of the points that it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from partita.reproduce.chart import draw_charts
from partita.reproduce.figure import Chart

Found = Mapping[str, dict[str, Any]]
#: The exponent of a power law and the part that it explains, of sizes and values.
Law = Callable[[Sequence[float], Sequence[float]], tuple[float, float] | None]

#: Below it the exponent of a power law is not shown.
LEAST_EXPLAINED = 0.9
#: What plans are counted in, and what tables call it.
SIZES = {
    "evaluations": "plans priced",
    "stages": "stages",
    "steps": "steps of the program",
    "messages": "messages",
    "plan_bytes": "bytes of the plan file",
    "table_lines": "lines of tables",
}


def lines_of(found: Found, axis: str) -> dict[str, list[dict[str, Any]]]:
    """Return the points of the usual search with a plan by line, in the order of their sizes.

    Without those that the clock on the wall cut short: their seconds say how busy the machine was.
    """
    lines: dict[str, list[dict[str, Any]]] = {}
    for one in found.values():
        point = one["point"]
        is_usual = point["budget_s"] is None and one.get("status") not in (None, "cut short")
        if point["axis"] == axis and is_usual:
            lines.setdefault(name_line(point), []).append(one)
    return {name: sorted(line, key=size_of) for name, line in lines.items()}


def name_line(point: Mapping[str, Any]) -> str:
    """Return the network, with its devices where those do not grow, and the planner."""
    at = f" on {point['devices']}" if point["axis"] == "layers" else ""
    rate = ", throughput" if point["planner"] == "best" and point["objective"] != "latency" else ""
    return f"{point['network']}{at}, {point['planner']}{rate}"


def size_of(one: Mapping[str, Any]) -> int:
    """Return how many devices or layers a point has."""
    size: int = one["point"]["size"]
    return size


def plan_s(one: Mapping[str, Any]) -> float:
    """Return the seconds of planning."""
    seconds: float = one["seconds"]["plan"]
    return seconds


def grown_bytes(one: Mapping[str, Any]) -> int:
    """Return what planning held at most, beyond what reading left."""
    grown: int = one["most_bytes"] - one["before_bytes"]
    return grown


def part_of_bound(one: Mapping[str, Any]) -> float:
    """Return the bound over the plan, by the objective: 1 where nothing can be better."""
    if one["least_period_s"] is not None:
        return float(one["least_period_s"] / one["period_s"])
    return float(one["bound_s"] / one["latency_s"])


def list_tables(found: Found, law: Law) -> Iterator[str]:
    """Yield Markdown: of each axis planning time, memory, quality, and what else takes time."""
    for axis in ("devices", "layers"):
        lines = lines_of(found, axis)
        if not lines:
            continue
        sizes = sorted({size_of(one) for line in lines.values() for one in line})
        yield from _table(f"seconds of planning by {axis}", lines, sizes, (plan_s, "{:.2g}"), law)
        megabytes = (lambda one: grown_bytes(one) / 1e6, "{:.0f}")
        yield from _table(f"MB of planning by {axis}", lines, sizes, megabytes, law)
        percent = (lambda one: 100 * part_of_bound(one), "{:.0f}")
        yield from _table(f"% of the bound by {axis}", lines, sizes, percent, None)
        yield from _phases(axis, lines, sizes, law)
    yield from _longer(found)


def _table(
    title: str,
    lines: Mapping[str, Sequence[dict[str, Any]]],
    sizes: Sequence[int],
    shown: tuple[Callable[[dict[str, Any]], float], str],
    law: Law | None,
) -> Iterator[str]:
    measure, form = shown
    yield from _head([title, *map(str, sizes), *(["exponent"] if law else [])])
    for name, line in lines.items():
        values = {size_of(one): measure(one) for one in line}
        cells = [form.format(values[size]) if size in values else "–" for size in sizes]
        yield _row([name, *cells, *([_exponent(law, values)] if law else [])])
    yield ""


def _phases(
    axis: str, lines: Mapping[str, Sequence[dict[str, Any]]], sizes: Sequence[int], law: Law
) -> Iterator[str]:
    """Yield what reading, lowering, showing take of the plans of ``best`` for latency."""
    for name, line in lines.items():
        if not name.endswith(", best"):
            continue
        yield from _head([f"seconds, {name}, by {axis}", *map(str, sizes), "exponent"])
        for phase in line[0]["seconds"]:
            values = {size_of(one): one["seconds"][phase] for one in line}
            cells = [f"{values[size]:.2g}" if size in values else "–" for size in sizes]
            yield _row([phase, *cells, _exponent(law, values)])
        for what, title in SIZES.items():
            values = {size_of(one): one[what] for one in line}
            cells = [str(values.get(size, "–")) for size in sizes]
            yield _row([title, *cells, _exponent(law, values)])
        yield ""


def _longer(found: Found) -> Iterator[str]:
    """Yield what a longer search makes of the same case."""
    rows = []
    for one in found.values():
        point = one["point"]
        if point["budget_s"] is None or "seconds" not in one:
            continue
        usual = next(o for o in found.values() if o["point"] == {**point, "budget_s": None})
        what = "latency_s" if point["objective"] == "latency" else "period_s"
        ours, longer = usual[what], one[what]
        seconds = f"{plan_s(usual):.1f} s", f"{point['budget_s']:g} s"
        name = f"{name_line(point)}, {point['size']} {point['axis']}"
        rows.append(
            [name, *seconds, f"{ours * 1e3:.1f}", f"{longer * 1e3:.1f}", f"{ours / longer - 1:.1%}"]
        )
    if rows:
        yield from _head(["case", "usual search", "longer", "ms", "ms, longer", "gained"])
        yield from map(_row, rows)
        yield ""


def _exponent(law: Law, values: Mapping[int, float]) -> str:
    """The exponent of a power law where that explains nearly all, and says something."""
    fitted = law(list(values), list(values.values()))
    if fitted is None or fitted[1] < LEAST_EXPLAINED:
        return "–"
    return f"{fitted[0]:.1f}"


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _row(cells)
    yield "|---|" + "---:|" * (len(cells) - 1)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def draw_pictures(found: Found) -> dict[str, bytes]:
    """Return a picture of each axis by file name: time, memory and quality."""
    pictures = {}
    for axis in ("devices", "layers"):
        lines = lines_of(found, axis)
        if lines:
            pictures[f"growth-{axis}.png"] = draw_charts(list(_charts(axis, lines)))
    return pictures


def _charts(axis: str, lines: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[Chart]:
    sizes = tuple(sorted({float(size_of(one)) for line in lines.values() for one in line}))

    def series(
        names: Sequence[str], measure: Callable[[dict[str, Any]], float]
    ) -> dict[str, tuple[float | None, ...]]:
        by_line = {name: {size_of(one): measure(one) for one in lines[name]} for name in names}
        return {
            name: tuple(values.get(int(size)) for size in sizes) for name, values in by_line.items()
        }

    # All planners of one network, and ``best`` of the others: more lines are not told apart.
    first = next(iter(lines)).partition(", ")[0]
    best = [name for name in lines if ", best" in name]
    shown = [name for name in lines if name in best or name.startswith(f"{first}, ")]
    yield Chart(
        "Seconds of planning", "lines", sizes, series(shown, plan_s), axis, "s", log_axes="xy"
    )
    megabytes = series(shown, lambda one: max(1.0, grown_bytes(one) / 1e6))
    yield Chart(
        "Memory of planning, beyond the model", "lines", sizes, megabytes, axis, "MB", log_axes="xy"
    )
    yield Chart(
        "Bound over the plan's latency, or over its time per request (throughput)",
        "lines", sizes, series(shown, lambda one: 100 * part_of_bound(one)), axis, "%",
        log_axes="x",
    )  # fmt: skip
