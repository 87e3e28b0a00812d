"""The report as one HTML page that needs nothing else: no script, no font, no other file."""

from __future__ import annotations

import base64
from importlib import resources

from partita.planners.result import describe_bound
from partita.report import tables
from partita.report.bars import BarChart, chart_busy, chart_comparison, draw_bars
from partita.report.bottleneck import busy_shares, describe_bottleneck
from partita.report.bundle import Checked, Picture, ReportBundle
from partita.report.changes import tabulate_changes, tabulate_plan_runs
from partita.report.markup import Markup, element, join
from partita.report.palette import write_variables
from partita.report.scale import shorten
from partita.report.tables import TableData
from partita.report.timeline import Timeline, describe_lanes, lay_out
from partita.report.timeline_svg import draw_timeline
from partita.units import format_seconds

#: Even a name that slipped through could load or run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

#: Of a cell in a table: the names of a hundred devices, no more of names that came from odd files.
_MOST_LETTERS = 1000


def write_page(bundle: ReportBundle) -> str:
    """The whole page. Every name in it is escaped: names come from files."""
    style = resources.files("partita.report").joinpath("style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", bundle.title),
        element("style", Markup(write_variables() + style)),
    )
    body = element("body", element("h1", bundle.title), _describe(bundle), *_list_sections(bundle))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _list_sections(bundle: ReportBundle) -> list[Markup]:
    runs = (bundle.predicted, bundle.measured)
    order = [use.name for run in runs if run for use in run.devices]
    parts = [_draw_tiles(bundle), *map(_draw_picture, bundle.pictures)]
    parts.append(_draw_table(tables.tabulate_plan(bundle.plan, order)))
    if any(runs):
        parts.append(_draw_table(tables.tabulate_run(*runs)))
        parts.append(_draw_table(tabulate_changes(bundle.changes)))
        if bundle.last_plan is not None:
            last = tables.tabulate_plan(bundle.last_plan, order, title=tables.LAST_PLAN)
            parts += [_draw_table(last), _draw_table(tabulate_plan_runs(bundle.plan_runs))]
        parts.append(_draw_path(bundle))
        timeline = lay_out(*runs)
        parts.append(_draw_timeline(timeline))
        if timeline.total > timeline.requests:
            parts.append(_draw_last(lay_out(*runs, last=True)))
        busy = chart_busy(*runs)
        if busy.rows:
            parts += [element("h2", _name_busy(busy)), _name_bottleneck(bundle)]
            parts.append(_frame(draw_bars(busy)))
        parts += map(_draw_table, (tables.tabulate_devices(*runs), tables.tabulate_links(*runs)))
        parts += map(_draw_table, (tables.tabulate_queues(*runs), tables.tabulate_steps(*runs)))
    if bundle.checked:
        parts.append(_draw_check(bundle.checked))
    if bundle.comparison:
        chart = chart_comparison(bundle.comparison, find_reference(bundle))
        parts += [element("h2", "Latency by planner"), _frame(draw_bars(chart))]
        parts.append(_draw_table(tables.tabulate_comparison(bundle.comparison)))
    return parts


def find_reference(bundle: ReportBundle) -> tuple[float, str] | None:
    """The latency of the best single device and its name for a chart, where known."""
    if bundle.best_single_s is None:
        return None
    return bundle.best_single_s, f"best single device {bundle.best_single_device}".strip()


def _describe(bundle: ReportBundle) -> Markup:
    plan = bundle.plan
    words = (
        f"Model {plan.model.name} on cluster {plan.cluster.name}; planner {plan.planner},"
        f" objective {plan.objective}, seed {plan.seed}, at most {plan.in_flight} in flight;"
        f" {tables.count_requests(bundle.predicted, bundle.measured)}."
    )
    return element("p", words)


def _draw_tiles(bundle: ReportBundle) -> Markup:
    predicted, measured = (
        run.mean_s if run and run.latencies_s else None
        for run in (bundle.predicted, bundle.measured)
    )
    reached = measured if measured is not None else predicted
    tiles: list[tuple[str, str, str]] = []
    for name, value in (("predicted latency", predicted), ("measured latency", measured)):
        if value is not None:
            tiles.append((name, format_seconds(value), ""))
    if predicted is not None and measured is not None:
        tiles.append(("prediction off by", tables.describe_change(predicted, measured), ""))
    for last in bundle.plan_runs[-1:]:
        if last.measured_s is not None:
            off = tables.describe_change(last.predicted_s, last.measured_s)
            tiles.append((f"prediction of the plan {last.name} off by", off, ""))
    if bundle.best_single_s is not None:
        name = f"best single device {bundle.best_single_device}".strip()
        tiles.append((name, format_seconds(bundle.best_single_s), ""))
        if reached:
            faster = bundle.best_single_s / reached
            tiles.append(("speed-up over it", f"{faster:.2f}×", "good" if faster > 1 else "bad"))
    if bundle.lower_bound_s:  # zero where none was proven
        bound = describe_bound(bundle.lower_bound_s, predicted or 0.0)
        tiles.append(("lower bound", bound, ""))
    if bundle.worth_splitting is not None:
        tiles.append(("worth splitting", "yes" if bundle.worth_splitting else "no", ""))
    if bundle.checked:
        look = _look_of(bundle.checked)
        words = f"{bundle.checked.relative:.1e} of {bundle.checked.measure}"
        tiles.append(("difference from the whole model", words, look))
    tiles += [(name, value, "") for name, value in bundle.facts]
    entries = (
        element("div", element("dt", name), element("dd", value, class_=look))
        for name, value, look in tiles
    )
    return element("dl", *entries, class_="tiles")


def _draw_timeline(timeline: Timeline) -> Markup:
    heading = element("h2", "Timeline")
    if not timeline.rows:
        return join(heading, element("p", "No steps were recorded: tracing was off."))
    words = "What each lane of each device and each link did when."
    if len(timeline.sources) > 1:
        words = "What each lane of each device and each link did when, predicted above measured."
    if timeline.requests > 1:
        words += " Every second request is drawn lighter."
    if timeline.requests < timeline.total:
        words += f" The first {timeline.requests} of {timeline.total} requests; trace.json has all."
    if describe_lanes(timeline):
        words += f" Shown are {describe_lanes(timeline)}; trace.json has all."
    return join(heading, element("p", words), _frame(draw_timeline(timeline)))


def _draw_last(timeline: Timeline) -> Markup:
    words = f"The last {timeline.requests} of {timeline.total} requests."
    return join(
        element("h2", "End of the run"), element("p", words), _frame(draw_timeline(timeline))
    )


def _name_busy(chart: BarChart) -> str:
    words = f", the {len(chart.rows)} busiest of {len(chart.rows) + chart.left_out}"
    return "Busy share of the run" + (words if chart.left_out else "")


def _name_bottleneck(bundle: ReportBundle) -> Markup:
    reached = bundle.measured or bundle.predicted
    words = describe_bottleneck(busy_shares(reached)) if reached is not None else ""
    return element("p", f"{words}.") if words else Markup("")


def _draw_path(bundle: ReportBundle) -> Markup:
    reached = bundle.measured or bundle.predicted
    words = tables.describe_path(reached) if reached is not None else ""
    if not words:
        return Markup("")
    table = _draw_table(tables.tabulate_path(bundle.predicted, bundle.measured))
    return join(table, element("p", f"Decides: {words}."))


def _draw_picture(picture: Picture) -> Markup:
    source = f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"
    image = element("img", src=source, alt=picture.words)
    return join(element("h2", picture.title), image, element("p", picture.words))


def _draw_check(checked: Checked) -> Markup:
    words = (
        f"{checked.cases} input{'' if checked.cases == 1 else 's'} compared with {checked.whole}:"
        f" largest difference {checked.max_difference:.3g} at a largest magnitude of"
        f" {checked.max_magnitude:.3g}, that is {checked.relative:.2g} of {checked.measure}:"
        f" {checked.verdict}."
    )
    return join(element("h2", "What was checked"), element("p", words, class_=_look_of(checked)))


def _look_of(checked: Checked) -> str:
    return "good" if checked.passed else "bad" if checked.is_failure else ""


def _draw_table(data: TableData) -> Markup:
    if not data.rows:
        return Markup("")

    def cells(tag: str, row: tuple[str, ...]) -> Markup:
        looks = ("word" if i < data.text_columns else "number" for i in range(len(row)))
        return element(
            "tr",
            *(
                element(tag, shorten(cell, _MOST_LETTERS), class_=look)
                for cell, look in zip(row, looks, strict=True)
            ),
        )

    head = element("thead", cells("th", data.columns))
    body = element("tbody", *(cells("td", row) for row in data.rows))
    return join(element("h2", data.title), _frame(element("table", head, body)))


def _frame(content: Markup) -> Markup:
    return element("div", content, class_="scroll")
