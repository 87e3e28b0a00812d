"""What a report is about, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partita.exactness.accuracy import Accuracy
from partita.execution import Change, Report
from partita.plan import Plan


@dataclass(frozen=True)
class Checked:
    """How far the divided network's outputs were from the whole model's.

    Attributes:
        max_difference: Largest absolute difference of any output element.
        max_magnitude: Largest absolute value of any output element of the whole model.
        cases: Number of inputs that were compared.
        passed: Whether the difference is within what rounding allows.
        lossy: Whether the plan lets tensors travel lossy, so that more difference is no failure.
        scale: What the difference is a share of, where that is not the magnitude: what is small by
            nature, behind a function that saturates, is measured against what rounding means there.
        non_finite: How many values of the whole model's answers are NaN or infinite.
        in_bits: Whether the whole model was rounded to the plan's bits, too.
    """

    max_difference: float
    max_magnitude: float
    cases: int
    passed: bool
    lossy: bool = False
    scale: float | None = None
    non_finite: int = 0
    in_bits: bool = False

    @property
    def whole(self) -> str:
        """What the answers were compared with, in words."""
        return "the network in these bits" if self.in_bits else "the whole model"

    @property
    def is_failure(self) -> bool:
        """Whether the answers are wrong: no wire format makes a number of what is none."""
        is_measured = math.isfinite(self.max_difference)
        return not (self.passed or (self.lossy and is_measured))

    @property
    def verdict(self) -> str:
        """What it comes to, in words."""
        told = describe_non_finite(self.non_finite, math.isfinite(self.max_difference))
        return f"{self._compared}; not finite: {told}" if told else self._compared

    @property
    def _compared(self) -> str:
        if self.passed:
            return "the same answer"
        if self.is_failure:
            return "NOT the same answer"
        share = f"{self.relative:.2%} of the largest value"
        return f"lossy transfers, as planned: {share}"

    @property
    def relative(self) -> float:
        """The difference as a fraction of the magnitude, or of the scale."""
        whole = self.max_magnitude if self.scale is None else self.scale
        return self.max_difference / whole if whole else 0.0

    @property
    def measure(self) -> str:
        """What the difference is a fraction of, in words."""
        if self.scale is None or self.scale <= self.max_magnitude:
            return "the largest output"
        return f"{self.scale:.3g}, as outputs are small by nature"


@dataclass(frozen=True)
class Contender:
    """One planner's row of a comparison; what was not found or not measured is None.

    Attributes:
        predicted_s: Predicted latency, median.
        measured_s: Measured latency, median.
        images_per_second: Predicted throughput, from the first request to the last answer.
        moved_bytes: Payload bytes over all links, per request.
        status: ``optimal``, ``feasible``, or why there is no plan.
        inexact: What makes its answers others than the network's; empty for the same answers.
        accuracy: Of its answers, where it was judged.
        requests: Of the predicted run; where there are several, its latency is one under load.
        sustained_per_second: Predicted throughput while inputs never run out, where that counts.
    """

    planner: str
    predicted_s: float | None = None
    measured_s: float | None = None
    images_per_second: float | None = None
    moved_bytes: int | None = None
    search_s: float | None = None
    status: str = ""
    inexact: str = ""
    accuracy: Accuracy | None = None
    requests: int = 1
    sustained_per_second: float | None = None


@dataclass(frozen=True)
class Picture:
    """A picture of what the run was about.

    Attributes:
        png: The file's bytes.
        words: What it shows, for those who do not see it.
    """

    title: str
    png: bytes
    words: str


@dataclass(frozen=True)
class PlanRun:
    """What one plan of a run was to take per request, and what the requests took that it answered.

    Attributes:
        name: Which of the run's plans.
        predicted_s: Latency, median, under the conditions that the plan was made for.
        measured_s: Latency, median, of requests that were fed under no other plan; None where there
            were none.
        requests: How many those were.
    """

    name: str
    predicted_s: float
    measured_s: float | None
    requests: int


@dataclass(frozen=True)
class ReportBundle:
    """Everything that ``write_report`` shows; what is absent is left out of the page.

    Attributes:
        title: Heading of the page.
        predicted: The run as simulated; None where the plan changed, and no simulation is of it.
        measured: The run as it happened.
        lower_bound_s: No plan has a lower latency, by the planner's proof.
        best_single_s: Predicted latency of the best single device.
        worth_splitting: Whether the planner found the division faster than that device.
        comparison: Other planners on the same profiles.
        last_plan: The plan in force at the run's end, where that is another one.
        plan_runs: The first plan and that one, each predicted and measured.
        facts: Further lines of the summary: name and value.
    """

    title: str
    plan: Plan
    predicted: Report | None = None
    measured: Report | None = None
    checked: Checked | None = None
    lower_bound_s: float | None = None
    best_single_s: float | None = None
    best_single_device: str = ""
    worth_splitting: bool | None = None
    comparison: tuple[Contender, ...] = ()
    changes: tuple[Change, ...] = ()
    last_plan: Plan | None = None
    plan_runs: tuple[PlanRun, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    pictures: tuple[Picture, ...] = ()


def describe_non_finite(count: int, is_measured: bool) -> str:
    """What is said of answers that hold NaN or infinities; empty where all is well.

    Args:
        count: How many such elements the whole model's answers have.
        is_measured: Whether the divided run's shapes and such elements are the same.
    """
    held = f"{count} values of the whole model's answers are NaN or infinite"
    if not is_measured:
        return f"in shape, or in what is NaN or infinite, the two differ ({held})"
    return f"{held}, the same in both; the others were compared" if count else ""
