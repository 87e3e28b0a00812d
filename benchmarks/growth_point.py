"""One point of ``benchmarks.growth``: one plan, made and looked at by a process of its own.

Prints a JSON object: seconds of the processor by what they went to, memory, and the plan's quality.

    python -m benchmarks.growth_point MODEL.onnx --devices 16 --planner best
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from benchmarks.bounds import catalogue_profile, unequal_cluster
from partita.compile import build_layout, check_plan, compile_plan
from partita.cost import CostModel
from partita.errors import PlanError
from partita.graph import load_graph
from partita.plan import Plan, dump_plan
from partita.planners import PlanOptions, Result, find_plan
from partita.program import check_program
from partita.report import ReportBundle, plan_table, report_tables, write_report
from partita.simulation import predict

T = TypeVar("T")

#: Requests in flight where throughput is wanted, and requests of the predicted run per one of them.
IN_FLIGHT, ROUNDS = 8, 8
KIND = "laptop"
#: Of the printed tables.
WIDTH = 140


class Phases:
    """Seconds of the processor by what they went to."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, name: str, call: Callable[[], T]) -> T:
        """Return what ``call`` returns; its seconds are added to those of ``name``."""
        began_s = time.process_time()
        result = call()
        spent_s = time.process_time() - began_s
        self.seconds[name] = self.seconds.get(name, 0.0) + spent_s
        return result


def memory_bytes(field: str) -> int:
    """Return what the kernel says of this process: ``VmRSS`` is now, ``VmHWM`` the most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def plan_point(path: str, devices: int, planner: str, options: PlanOptions) -> dict[str, Any]:
    """Return all that is said of one point; only ``none`` where the planner finds no plan."""
    phases = Phases()
    graph = phases.time("read", lambda: load_graph(path))
    profile = phases.time("profile", lambda: catalogue_profile(graph, KIND))
    cost = CostModel(graph, unequal_cluster(devices), profiles=profile)
    before_bytes = memory_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the most so far begins anew
    try:
        result = phases.time("plan", lambda: find_plan(cost, planner=planner, options=options))
    except PlanError as error:
        return {"layers": len(graph.layers), "none": str(error)}
    most_bytes = memory_bytes("VmHWM")
    said = {
        "layers": len(graph.layers),
        "before_bytes": before_bytes,
        "most_bytes": most_bytes,
        **judge(result),
        **look_at(cost, result.plan, phases),
    }
    return said | {"seconds": phases.seconds}


def judge(result: Result) -> dict[str, Any]:
    """Return how good a plan is, what it was searched for, and how large it is."""
    return {
        "latency_s": result.latency_s,
        "bound_s": result.lower_bound_s,
        "period_s": result.estimate.period_s,
        "least_period_s": result.least_period_s,
        "single_s": result.best_single_s,
        "status": result.status,
        "evaluations": result.evaluations,
        "stages": len(result.plan.stages),
        "messages": result.estimate.messages,
    }


def look_at(cost: CostModel, plan: Plan, phases: Phases) -> dict[str, Any]:
    """Return the sizes of what is made of a plan: lowered, checked, simulated, shown."""
    graph, cluster = cost.graph, cost.cluster
    text = phases.time("write plan", lambda: dump_plan(plan))
    phases.time("check", lambda: check_plan(graph, plan, cluster))
    layout = phases.time("lower", lambda: build_layout(graph, plan, cluster))
    phases.time("check", lambda: check_program(layout.program))
    phases.time("write fragments", lambda: compile_plan(graph, plan, cluster))
    requests = 1 if plan.in_flight == 1 else ROUNDS * plan.in_flight
    run = phases.time("simulate", lambda: predict(cost, plan, requests=requests))
    tables = io.StringIO()
    console = Console(file=tables, width=WIDTH)

    def show() -> None:
        for table in (plan_table(plan, cluster.names), *report_tables(run)):
            console.print(table)

    phases.time("tables", show)
    bundle = ReportBundle("growth", plan, predicted=run)
    with tempfile.TemporaryDirectory() as folder:
        phases.time("report", lambda: write_report(folder, bundle))
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    return {
        "steps": sum(len(device.steps) for device in layout.program.devices),
        "plan_bytes": len(text),
        "table_lines": tables.getvalue().count("\n"),
        "report_bytes": sizes,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--planner", default="best")
    parser.add_argument("--objective", default="latency")
    parser.add_argument("--budget", type=float, help="seconds that best takes, all of them")
    args = parser.parse_args()
    in_flight = 1 if args.objective == "latency" else IN_FLIGHT
    given = {} if args.budget is None else {"budget_s": args.budget}
    options = PlanOptions(args.objective, in_flight=in_flight, **given)
    print(json.dumps(plan_point(args.model, args.devices, args.planner, options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
