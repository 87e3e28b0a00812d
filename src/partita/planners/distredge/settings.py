"""What DistrEdge's planners may be told, with the paper's numbers and the repairs as defaults."""

from __future__ import annotations

from dataclasses import dataclass

from partita.errors import PlanError
from partita.planners.distredge.lcpss import Scores


@dataclass(frozen=True)
class DistrEdgeSettings:
    """LC-PSS, OSDS, the repairs and the control.

    Attributes:
        alpha: LC-PSS: weight of the transmitted amount.
        decisions: LC-PSS: random split decisions that are averaged.
        scores: LC-PSS: ``normalised`` or ``raw``.
        partition_seed: LC-PSS: of the drawn decisions, so that runs of several seeds differ in
            what is learnt alone.
        episodes: Plans that are tried.
        batch: Transitions of one update.
        discount: Of a later reward, per volume.
        tau: Share of the new weights in the target networks' at each update; the paper has none.
        updates: Of actor and critic per volume of an episode, done at its end.
        decay: Exploration ends after 1 / decay episodes, but for ``floor``.
        variance: Of the exploring noise; by the number of providers when None.
        floor: Least chance of exploring.
        warm: Begin with the plans that simple rules give.
        perturb: Share of episodes that change the best plan found so far.
        learn: Whether the networks are trained; else the control: the same exploration around a
            policy that was never trained.
        seconds: Training ends after so many seconds; never when None.
        load: File of an actor and critic to begin with.
        save: File for those that were in use when the best plan was found.
    """

    alpha: float = 0.75
    decisions: int = 100
    scores: Scores = "normalised"
    partition_seed: int = 0
    episodes: int = 600
    batch: int = 64
    discount: float = 0.99
    tau: float = 0.005
    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    updates: float = 1.0
    decay: float = 1 / 250
    variance: float | None = None
    floor: float = 0.15
    warm: bool = True
    perturb: float = 0.3
    learn: bool = True
    seconds: float | None = None
    load: str | None = None
    save: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        for name in ("alpha", "discount", "tau", "floor", "perturb"):
            if not 0 <= getattr(self, name) <= 1:
                raise _wrong(name, getattr(self, name), "0 to 1")
        for name in ("decisions", "episodes", "batch"):
            if getattr(self, name) < 1:
                raise _wrong(name, getattr(self, name), "1 or more")
        for name in ("decay", "actor_rate", "critic_rate", "updates", "variance", "seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise _wrong(name, value, "0 or more")

    def noise_variance(self, providers: int) -> float:
        """The variance of the exploring noise: 0.1 up to 4 providers, 1 from 16 on.

        The paper names these two; in between the exponent is interpolated.
        """
        if self.variance is not None:
            return self.variance
        return float(10.0 ** (min(max((providers - 4) / 12, 0.0), 1.0) - 1.0))

    def exploration(self, episode: int) -> float:
        """The chance of exploring in an episode, counted from 1.

        The paper's 1 - (episode * decay)^2 is 0 at episode 250 and -255 at 4000; it is clamped to
        ``floor`` here.

        >>> [DistrEdgeSettings(floor=0.0).exploration(e) for e in (125, 250, 251)]
        [0.75, 0.0, 0.0]
        """
        return max(self.floor, 1.0 - (episode * self.decay) ** 2)


#: Hyper-parameters as printed (section V); what the paper leaves out is as in the repaired method.
PUBLISHED = DistrEdgeSettings(episodes=4000, floor=0.0, warm=False, perturb=0.0)
#: Episodes, floor and perturb are round numbers, not tuned; docs/distredge.md has what the planner
#: gives with them, on VGG-16 in five of the paper's cases.
REPAIRED = DistrEdgeSettings()


def _wrong(name: str, value: object, allowed: str) -> PlanError:
    return PlanError(f"Setting '{name}' is {value}, allowed: {allowed}.", subject=name)
