"""Seconds per answer under steady load: what throughput is the inverse of."""

from __future__ import annotations

from math import lcm

from partita.cost import CostModel
from partita.execution import Durations, ReportBuilder
from partita.plan import Plan
from partita.program import Program
from partita.simulation.simulate import Run

#: Answers per request in flight that are passed over, and that are counted. On pipelines and
#: replicas of MobileNet-v2 and ResNet-50 over four unequal boards, 2 to 16 in flight, that was
#: within 1.2 % of eight times as many, and within 3.3 % for replicas without shares.
_PASSED, _COUNTED = 4, 8
#: Shares come round within so many answers, or are cut off: 1000 is the most of one stage.
_LONGEST_TURN = 1000


def predict_period_s(cost: CostModel, plan: Plan) -> float:
    """The seconds per answer of a plan while inputs never run out and replicas keep their shares.

    Where they cannot, because a share is too large for its device, the others answer more often
    than that for the turns it passes on, but in queues that are as full as they may be.

    Raises:
        PlanError: The plan breaks a rule.
    """
    layout = cost.layout(plan)
    period_s = answer_period_s(layout.program, cost.price(layout))
    if all(stage.shares for stage in plan.stages if stage.axis == "replica"):
        return max(period_s, cost.bottleneck_s(layout))
    return period_s


def answer_period_s(
    program: Program, durations: Durations, *, in_flight: int | None = None
) -> float:
    """The mean seconds from one answer to the next while inputs never run out.

    Args:
        in_flight: Most requests at the same time; None for the program's own limit.

    Raises:
        PlanError: The program sends over a link that ``durations`` lacks.
        RunError: The program cannot finish.
    """
    limit = in_flight or program.in_flight
    passed, counted = _PASSED * limit, _COUNTED * limit
    turn = lcm(*(sum(shares) for shares in program.shares if shares))
    if turn <= _LONGEST_TURN:
        counted = -(-counted // turn) * turn
    run = Run(program, durations, limit, ReportBuilder(program, keep_spans=False))
    run.load_all(cold=False)
    # The last answers come from devices that begin to idle.
    run.feed_all(passed + counted + limit, None)
    run.finish()
    return (run.answered_s[passed + counted - 1] - run.answered_s[passed - 1]) / counted
