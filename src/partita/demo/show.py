"""The demo's answer for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from partita.demo.cluster import load_demo_cluster
from partita.demo.result import DemoResult, Trial, texts_of
from partita.demo.save import DemoFiles
from partita.planners.result import describe_bound
from partita.report import draw_table, plan_table
from partita.report.tables import TableData, describe_change
from partita.units import format_bytes, format_seconds


def print_demo(result: DemoResult, console: Console, files: DemoFiles | None = None) -> None:
    """Print what was read, the plan, and what it took beside what was predicted."""
    _print_line(console, "Read from the picture", _describe_reading(result))
    console.print(plan_table(result.divided.plan, load_demo_cluster().names))
    console.print(_latency_table(result))
    verdict = "rounding only" if result.is_exact else "NOT the same answer"
    lines = {
        "Planner": f"{result.divided.plan.planner} ({result.status})",
        "Speed-up": f"{result.speed_up:.2f}x over the best single device, both measured",
        "Bytes moved": f"{format_bytes(result.divided.moved_bytes)} per photo",
        "Largest difference": f"{result.max_difference:.1e} from the whole model, whose largest "
        f"value is {result.max_magnitude:.3g} ({verdict})",
        "Took": format_seconds(result.wall_s),
    }
    if files is not None:
        lines |= {"Photo": str(files.photo), "Report": str(files.report.page)}
    for name, value in lines.items():
        _print_line(console, name, value)


def _print_line(console: Console, name: str, value: str) -> None:
    console.print(f"{name + ':':<23}{value}", markup=False, highlight=False, soft_wrap=True)


def _describe_reading(result: DemoResult) -> str:
    read = ", ".join(texts_of(result.read)) or "nothing"
    if result.is_read_exactly:
        return f"{read} (as drawn)"
    return f"{read} (drawn: {', '.join(texts_of(result.drawn))})"


def _latency_table(result: DemoResult) -> Table:
    single = result.single
    rows = [
        _tabulate_trial(f"best single device ({', '.join(single.devices)})", single),
        _tabulate_trial("divided", result.divided),
    ]
    if result.lower_bound_s > 0:
        bound = describe_bound(result.lower_bound_s, result.divided.predicted_s)
        rows.append(("lower bound", bound, "", ""))
    columns = ("plan", "predicted", "measured", "difference")
    return draw_table(TableData("Latency of one photo", columns, tuple(rows)))


def _tabulate_trial(name: str, trial: Trial) -> tuple[str, str, str, str]:
    predicted_s, measured_s = trial.predicted_s, trial.measured_s
    change = describe_change(predicted_s, measured_s)
    return name, format_seconds(predicted_s), format_seconds(measured_s), change
