"""From a plan to its predicted run: laid out, priced, simulated."""

from __future__ import annotations

from msgspec.structs import replace

from partita.cost import CostModel
from partita.execution import Report
from partita.plan import Plan
from partita.simulation.simulate import simulate


def predict(
    cost: CostModel,
    plan: Plan,
    *,
    requests: int = 1,
    in_flight: int | None = None,
    keep_spans: bool = True,
) -> Report:
    """The run of a plan if every step takes its predicted time.

    Args:
        in_flight: Most requests at the same time; the plan's own number by default.
        keep_spans: Whether the report lists what each lane did when.

    Raises:
        PlanError: The plan breaks a rule.
    """
    layout = cost.layout(plan)
    report = simulate(
        layout.program,
        cost.price(layout),
        requests=requests,
        in_flight=in_flight,
        planner=plan.planner,
        seed=plan.seed,
        keep_spans=keep_spans,
    )
    memory = cost.memory(layout)
    devices = (replace(use, peak_memory_bytes=memory[use.name].total) for use in report.devices)
    return replace(report, devices=tuple(devices))
