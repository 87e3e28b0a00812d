"""Seconds per answer under steady load: what throughput is the inverse of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, lcm

from partita.cost import CostModel
from partita.errors import PlanError
from partita.execution import Durations, ReportBuilder
from partita.plan import Plan
from partita.program import Program
from partita.simulation.simulate import Run

#: Answers of the first look, at least: per request in flight, and in all; each next look is twice
#: as long, until two in a row agree to this part. For replicas and pipelines of VGG-16 and
#: MobileNet-v2 on 4 to 12 unequal devices, 8 and 48 in flight, the period is then within 0.4 % of
#: that of 3000 requests.
_LOOK_ROUNDS, _LEAST_LOOK = 2, 24
CLOSE = 0.002
#: Looks after which the last one counts, steady or not.
_MOST_LOOKS = 6
#: Shares come round within so many answers, or are cut off: 1000 is the most of one stage.
_LONGEST_TURN = 1000


@dataclass(frozen=True)
class Until:
    """How long a run under load is simulated.

    Attributes:
        close: The part to which two looks in a row agree.
        is_over: Asked again and again; once it says so, the simulation is given up.
        is_enough: Asked as often; once it says so, the last look that was ended counts.
        known_s: What counts before one was, if anything does.
    """

    close: float = CLOSE
    is_over: Callable[[], bool] = lambda: False
    is_enough: Callable[[], bool] = lambda: False
    known_s: float = inf


class OutOfTimeError(PlanError):
    """A simulation was ended before it could tell."""


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
    program: Program,
    durations: Durations,
    *,
    in_flight: int | None = None,
    until: Until = Until(),
) -> float:
    """The mean seconds from one answer to the next while inputs never run out.

    Each look at the run holds every route of replicas in its share.

    Args:
        in_flight: Most requests at the same time; None for the program's own limit.
        until: How long that is simulated.

    Raises:
        OutOfTimeError: It was.
        PlanError: The program sends over a link that ``durations`` lacks.
        RunError: The program cannot finish.
    """
    limit = in_flight or program.in_flight
    look = max(_LEAST_LOOK, _LOOK_ROUNDS * limit)
    turn = lcm(*(sum(shares) for shares in program.shares if shares))
    if turn <= _LONGEST_TURN:
        look = -(-look // turn) * turn
    run = Run(program, durations, limit, ReportBuilder(program, keep_spans=False))
    run.load_all(cold=False)
    # What is fed and never looked at keeps devices from idling before the last look ends.
    run.feed_all((look << _MOST_LOOKS) + limit, None)
    before_s = inf
    for _ in range(_MOST_LOOKS):
        for answers in range(len(run.answered_s) + limit, 2 * look, limit):
            run.run_until(answers)
            if until.is_over():
                raise OutOfTimeError("There was no time left to simulate the plan under load.")
            if min(before_s, until.known_s) < inf and until.is_enough():
                return before_s if before_s < inf else until.known_s
        run.run_until(2 * look)
        if len(run.answered_s) < 2 * look:
            run.finish()  # which says what waits
        period_s = (run.answered_s[2 * look - 1] - run.answered_s[look - 1]) / look
        if abs(period_s - before_s) <= until.close * period_s:
            break
        before_s, look = period_s, 2 * look
    return period_s
