"""From a split process and settings to a trained actor and the best plan."""

from __future__ import annotations

from pathlib import Path

from partita.planners.distredge.agent import SplitAgent, one_thread
from partita.planners.distredge.checkpoint import (
    Checkpoint,
    check_place,
    load_checkpoint,
    save_checkpoint,
)
from partita.planners.distredge.environment import SplitEnvironment
from partita.planners.distredge.observation import Observer
from partita.planners.distredge.osds import Trained, Training
from partita.planners.distredge.process import SplitProcess
from partita.planners.distredge.settings import DistrEdgeSettings
from partita.planners.distredge.starts import start_plans


def train(process: SplitProcess, settings: DistrEdgeSettings) -> Trained:
    """What a training finds; reads and writes checkpoints where the settings say so.

    Raises:
        PlanError: A checkpoint cannot be read or written, or is for another state size.
    """
    if settings.save is not None:
        check_place(Path(settings.save))
    seed = process.evaluator.options.seed
    starts = start_plans(process)
    loaded = None
    if settings.load is not None:
        loaded = load_checkpoint(Path(settings.load), len(process.devices))
    unit_s = time_unit_s(process) if loaded is None else loaded.time_unit_s
    with one_thread():
        environment = SplitEnvironment(process, Observer(process, unit_s))
        agent = SplitAgent(environment, settings, seed)
        if loaded is not None:
            agent.restore(loaded.weights)
        trained = Training(environment, agent, settings, seed).run(starts if settings.warm else ())
    if settings.save is not None:
        checkpoint = Checkpoint(len(process.devices), unit_s, trained.weights)
        save_checkpoint(Path(settings.save), checkpoint)
    return trained


def time_unit_s(process: SplitProcess) -> float:
    """The predicted seconds of the best plan by a simple rule; 1 when none is possible.

    Scales what the learner sees; has no other effect.
    """
    seconds = [process.evaluator.latency_of(process.draft(start)) for start in start_plans(process)]
    best_s = min(seconds)
    return best_s if best_s < float("inf") else 1.0
