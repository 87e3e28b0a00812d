"""The two planners: DistrEdge as published, and repaired."""

from __future__ import annotations

from importlib.util import find_spec

from partita.errors import InfeasibleError, PlanError, how_to_install
from partita.planners.distredge.process import SplitProcess, find_process
from partita.planners.distredge.settings import PUBLISHED, REPAIRED, DistrEdgeSettings
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen, register
from partita.planners.settings import read_settings
from partita.planners.simple.single import single_drafts


@register("distredge", cost="training", settings=REPAIRED)
def plan_distredge(evaluator: Evaluator) -> Chosen:
    """DistrEdge repaired: exploration never ends, and begins with plans by simple rules.

    Latency only, whatever the objective. Takes its episodes whatever the budget.

    Raises:
        PlanError: PyTorch or Stable-Baselines3 is not installed, or a setting is wrong.
        InfeasibleError: No plan was possible.
    """
    return _plan(evaluator, "distredge", REPAIRED)


@register("distredge_published", cost="training", settings=PUBLISHED)
def plan_distredge_published(evaluator: Evaluator) -> Chosen:
    """DistrEdge with the numbers of the paper: 4000 episodes, of which 249 explore.

    Raises:
        PlanError: PyTorch or Stable-Baselines3 is not installed, or a setting is wrong.
        InfeasibleError: No plan was possible.
    """
    return _plan(evaluator, "distredge_published", PUBLISHED)


def _plan(evaluator: Evaluator, name: str, defaults: DistrEdgeSettings) -> Chosen:
    settings = read_settings(defaults, name, evaluator.options.method)
    process = find_process(evaluator, settings)
    if process is None:
        return Chosen(evaluator.best(single_drafts(evaluator)))
    check_installed(name)
    return _train(process, settings)


def check_installed(name: str) -> None:
    """Raise where what training needs is not there.

    Raises:
        PlanError: Says how it is installed.
    """
    for module in ("torch", "gymnasium", "stable_baselines3"):
        if find_spec(module) is None:
            raise PlanError(
                f"Planner '{name}' needs '{module}', which is not installed. Install it:"
                f" {how_to_install('train')}.",
                subject=name,
            )


def _train(process: SplitProcess, settings: DistrEdgeSettings) -> Chosen:
    # Only here: what imports the planners must not load PyTorch, which takes a second.
    from partita.planners.distredge.train import train

    trained = train(process, settings)
    if trained.decisions is None:
        reason = process.explain(trained.last)
        why = reason.message if reason is not None else "a run gave no time."
        raise InfeasibleError(
            f"No plan was possible in {len(trained.latencies_s)} episodes; the last: {why}",
            subject=reason.subject if reason is not None else "",
        )
    is_short = len(trained.latencies_s) < settings.episodes
    return Chosen(process.draft(trained.decisions), "cut short" if is_short else "heuristic")
