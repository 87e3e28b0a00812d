"""What the demo is asked for, and everything that it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.demo.detector import Pixels
from partita.demo.photo import DrawnPlate
from partita.demo.reader import PlateRead
from partita.exactness.compare import Difference
from partita.execution import Report
from partita.plan import Plan

#: Largest difference that rounding in another order explains, relative to the largest magnitude:
#: the first law's, as in partita.exactness.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class DemoOptions:
    """What to show.

    Attributes:
        plates: Cars on it, 1 to 4.
        runs: Measured runs of each plan, after two that are not counted.
    """

    seed: int = 0
    plates: int = 3
    runs: int = 10
    planner: str = "best"
    budget_s: float = 8.0


@dataclass(frozen=True)
class Trial:
    """One plan in the lab: what it was predicted to take, and what it took.

    Attributes:
        measured: Runs one after the other, each input after the last output.
    """

    plan: Plan
    predicted: Report
    measured: Report

    @property
    def predicted_s(self) -> float:
        """Predicted latency of one photo."""
        return self.predicted.quantile_s(0.5)

    @property
    def measured_s(self) -> float:
        """Median of the measured latencies."""
        return self.measured.quantile_s(0.5)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that compute, in the plan's order."""
        names = (s.device for stage in self.plan.stages for s in (*stage.shards, *stage.merge))
        return tuple(dict.fromkeys(names))

    @property
    def moved_bytes(self) -> int:
        """Bytes that one photo sends over all links, as measured."""
        runs = max(1, len(self.measured.latencies_s))
        return sum(link.bytes for link in self.measured.links) // runs


@dataclass(frozen=True)
class DemoResult:
    """The demo's answer.

    Attributes:
        drawn: What is truly on the photo, from left to right.
        read: What was found and read, from left to right.
        divided: The plan found, in the lab.
        single: The best single device's plan, in the same lab.
        differences: How far each output is from the whole model's, at worst over all runs.
        lower_bound_s: No plan can take less.
    """

    pixels: Pixels
    drawn: tuple[DrawnPlate, ...]
    read: tuple[PlateRead, ...]
    divided: Trial
    single: Trial
    differences: tuple[Difference, ...]
    status: str
    lower_bound_s: float
    wall_s: float

    @property
    def speed_up(self) -> float:
        """Measured latency of the best single device over that of the divided network."""
        return self.single.measured_s / self.divided.measured_s

    @property
    def max_difference(self) -> float:
        """Largest absolute difference over all outputs."""
        return max(difference.max_difference for difference in self.differences)

    @property
    def max_magnitude(self) -> float:
        """Largest absolute value in the whole model's outputs."""
        return max(difference.max_magnitude for difference in self.differences)

    @property
    def is_exact(self) -> bool:
        """Whether rounding alone explains the differences of every output."""
        return all(difference.relative <= TOLERANCE for difference in self.differences)

    @property
    def is_read_exactly(self) -> bool:
        """Whether every plate was read as drawn, and nothing else."""
        return texts_of(self.read) == texts_of(self.drawn)


def texts_of(plates: Sequence[PlateRead] | Sequence[DrawnPlate]) -> list[str]:
    """The characters of each plate."""
    return [plate.text for plate in plates]


def describe_demo(result: DemoResult) -> dict[str, object]:
    """The demo's answer as JSON."""
    trials = {
        name: {
            "planner": trial.plan.planner,
            "devices": list(trial.devices),
            "predicted_s": trial.predicted_s,
            "measured_s": trial.measured_s,
            "moved_bytes": trial.moved_bytes,
        }
        for name, trial in (("divided", result.divided), ("single", result.single))
    }
    return {
        "read": texts_of(result.read),
        "drawn": texts_of(result.drawn),
        **trials,
        "speed_up": result.speed_up,
        "status": result.status,
        "lower_bound_s": result.lower_bound_s,
        "max_difference": result.max_difference,
        "max_magnitude": result.max_magnitude,
        "passed": result.is_exact,
        "took_s": result.wall_s,
    }
