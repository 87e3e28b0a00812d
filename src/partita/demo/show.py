"""The demo's answer for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from partita.demo.result import DemoResult, Trial, texts_of
from partita.plan import Shard, Stage
from partita.units import format_bytes, format_seconds


def print_demo(result: DemoResult, console: Console) -> None:
    """Print what was read, the plan, and what it took beside what was predicted."""
    console.print(_reading(result))
    console.print(_plan_table(result))
    console.print(_latency_table(result))
    verdict = "rounding only" if result.is_exact else "NOT the same answer"
    lines = {
        "Speed-up, measured": f"{result.speed_up:.2f}x the best single device",
        "Bytes moved": f"{format_bytes(result.divided.moved_bytes)} per photo",
        "Largest difference": f"{result.max_difference:.1e} from the whole model, "
        f"largest value {result.max_magnitude:.3g} ({verdict})",
        "Took": format_seconds(result.wall_s),
    }
    if result.picture is not None:
        lines["Picture"] = str(result.picture)
    for name, value in lines.items():
        console.print(f"{name + ':':<20} {value}", highlight=False, soft_wrap=True)


def _reading(result: DemoResult) -> str:
    read = ", ".join(texts_of(result.read)) or "nothing"
    if result.is_read_exactly:
        return f"Read from the picture: [bold]{read}[/bold] (as drawn)"
    drawn = ", ".join(texts_of(result.drawn))
    return f"Read from the picture: [bold]{read}[/bold] (drawn: {drawn})"


def _plan_table(result: DemoResult) -> Table:
    plan = result.divided.plan
    table = Table(title=f"Plan by '{plan.planner}' ({result.status})", title_justify="left")
    for name in ("stage", "layers", "split", "devices"):
        table.add_column(name, justify="right" if name == "layers" else "left")
    for stage in plan.stages:
        table.add_row(stage.name, str(len(stage.layers)), stage.axis, describe_shares(stage))
    return table


def describe_shares(stage: Stage) -> str:
    """Return who does how much of a stage, such as ``gateway 60 %, camera 40 %``."""
    sizes = {shard.device: _size(shard) for shard in stage.shards}
    total = sum(sizes.values())
    if not total:
        return ", ".join(sizes)
    return ", ".join(f"{name} {size / total:.0%}" for name, size in sizes.items() if size)


def _size(shard: Shard) -> int:
    return sum(box.size for box in shard.boxes.values())


def _latency_table(result: DemoResult) -> Table:
    table = Table(title="Latency of one photo", title_justify="left")
    table.add_column("plan")
    for name in ("predicted", "measured", "error"):
        table.add_column(name, justify="right")
    _add_trial(table, _name_single(result.single), result.single)
    _add_trial(table, "divided", result.divided)
    bound = format_seconds(result.lower_bound_s)
    table.add_row("lower bound", bound, "", "", style="dim")
    return table


def _add_trial(table: Table, name: str, trial: Trial) -> None:
    table.add_row(
        name,
        format_seconds(trial.predicted_s),
        format_seconds(trial.measured_s),
        f"{trial.measured_s / trial.predicted_s - 1:+.1%}",
    )


def _name_single(trial: Trial) -> str:
    devices = dict.fromkeys(s.device for stage in trial.plan.stages for s in stage.shards)
    return f"best single device ({', '.join(devices)})"
