"""What is asked of a reproduction, and what one measurement of it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import mean

import msgspec

#: Setting of a planner, such as its number of episodes.
Setting = str | int | float | bool


@dataclass(frozen=True)
class Study:
    """How thoroughly figures are reproduced.

    Attributes:
        models: For the figures that compare models; those of the paper when empty.
        seeds: Each randomised method is run once with each.
        episodes: Of the learning methods' training; None for each method's own.
        images: Stream that images per second are measured over.
        budget_s: Most seconds that ``best`` may search.
        precision: Number format that devices compute in, where they can.
        wire: Wire format of all tensors of single precision; same for all methods.
        repeats: Runs per value where the paper repeats a draw (50 there).
        trials: Processes that load each model in each way, where loading is measured.
        real: Whether figures are run on emulated devices, not simulated.
        cold: Whether models are dropped from the page cache before each of them.
    """

    models: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    episodes: int | None = None
    images: int = 100
    budget_s: float = 60.0
    precision: str = "float16"
    wire: str = "float16"
    repeats: int = 50
    trials: int = 10
    real: bool = False
    cold: bool = False


@dataclass(frozen=True)
class Case:
    """One method on one model and cluster.

    Attributes:
        scenario: Name of a shipped cluster.
        settings: Of the planner; what is not named keeps its default.
        axes: Along which ``best`` may divide; all when None.
        compress: Lossy format that takes the place of the study's wherever it is faster.
    """

    scenario: str
    model: str
    planner: str
    seed: int = 0
    settings: Mapping[str, Setting] = field(default_factory=dict)
    axes: tuple[str, ...] | None = None
    compress: str | None = None

    @property
    def title(self) -> str:
        """What progress shows."""
        return f"{self.planner} on {self.scenario}, {self.model}, seed {self.seed}"


class Outcome(msgspec.Struct, frozen=True):
    """What a plan gives on the simulated cluster.

    Attributes:
        latency_s: One image, from the requester's feed to its answer.
        images_per_second: Over a stream of images, each fed when the last was answered.
        compute_s: Per provider, what it computes for one image.
        transmission_s: Per provider, the time for which a piece to or from it is under way.
        stages: Stages of the plan (the paper's layer-volumes, and what runs after them).
        fault: Why there is no plan; empty when there is one, and then the rest holds.
    """

    latency_s: float = 0.0
    images_per_second: float = 0.0
    compute_s: dict[str, float] = {}
    transmission_s: dict[str, float] = {}
    stages: int = 0
    search_s: float = 0.0
    evaluations: int = 0
    fault: str = ""

    @property
    def max_compute_s(self) -> float:
        """The busiest provider's computing."""
        return max(self.compute_s.values(), default=0.0)

    @property
    def max_transmission_s(self) -> float:
        """The longest time that a provider sends or receives."""
        return max(self.transmission_s.values(), default=0.0)


@dataclass(frozen=True)
class Series:
    """The outcomes of one method on one case, over seeds."""

    outcomes: tuple[Outcome, ...]

    @property
    def fault(self) -> str:
        """Why a seed has no plan; empty where all have."""
        return next((outcome.fault for outcome in self.outcomes if outcome.fault), "")

    @property
    def images_per_second(self) -> float:
        """Mean over the seeds; a seed without a plan counts as 0."""
        return mean(outcome.images_per_second for outcome in self.outcomes)

    @property
    def lowest(self) -> float:
        """Images per second of the worst seed."""
        return min(outcome.images_per_second for outcome in self.outcomes)

    @property
    def highest(self) -> float:
        """Images per second of the best seed."""
        return max(outcome.images_per_second for outcome in self.outcomes)

    @property
    def latency_s(self) -> float:
        """Mean latency of one image."""
        return mean(outcome.latency_s for outcome in self.outcomes)

    @property
    def search_s(self) -> float:
        """Mean planning time."""
        return mean(outcome.search_s for outcome in self.outcomes)
