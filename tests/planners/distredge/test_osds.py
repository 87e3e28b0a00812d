"""OSDS: the published networks and numbers, and what a training leaves behind."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from gymnasium.utils.env_checker import check_env

from partita.errors import PlanError
from partita.execution import Report
from partita.planners.distredge.actions import cut_rows
from partita.planners.distredge.agent import SplitAgent, one_thread
from partita.planners.distredge.checkpoint import load_checkpoint
from partita.planners.distredge.environment import SplitEnvironment
from partita.planners.distredge.observation import Observer
from partita.planners.distredge.online import OnlineSplitter, accumulated_latencies
from partita.planners.distredge.osds import Training
from partita.planners.distredge.settings import PUBLISHED, REPAIRED, DistrEdgeSettings
from partita.planners.distredge.starts import start_plans
from partita.planners.distredge.train import train
from partita.simulation import simulate
from tests.planners.distredge.small import small_cost, small_process

FEW = replace(REPAIRED, episodes=12, batch=8)


def _environment(devices: int = 3) -> SplitEnvironment:
    process = small_process(small_cost(devices))
    return SplitEnvironment(process, Observer(process, 0.01))


def _agent(environment: SplitEnvironment, settings: DistrEdgeSettings = FEW) -> SplitAgent:
    with one_thread():
        return SplitAgent(environment, settings, seed=0)


def test_exploration_ends_as_published_and_is_clamped() -> None:
    """0.75 in episode 125, 0 in episode 250, never below 0; repaired, never below its floor."""
    chances = [PUBLISHED.exploration(episode) for episode in (125, 250, 251, 4000)]
    assert chances == pytest.approx([0.75, 0.0, 0.0, 0.0])
    assert sum(PUBLISHED.exploration(e) for e in range(1, 4001)) == pytest.approx(166.17, abs=0.01)
    assert REPAIRED.exploration(4000) == 0.15


def test_noise_is_as_published_for_4_and_16_providers() -> None:
    """Variance 0.1 and 1, and something between for numbers of providers in between."""
    assert [PUBLISHED.noise_variance(n) for n in (2, 4, 16, 32)] == [0.1, 0.1, 1.0, 1.0]
    assert 0.1 < PUBLISHED.noise_variance(10) < 1.0


@pytest.mark.parametrize(
    ("devices", "actor", "critic"), [(4, 104_203, 115_301), (16, 110_215, 124_901)]
)
def test_networks_have_the_published_sizes(devices: int, actor: int, critic: int) -> None:
    """States of providers + 4, and as many weights as the published widths make."""
    environment = _environment(devices)
    agent = _agent(environment)
    assert environment.observation_space.shape == (devices + 4,)
    assert environment.action_space.shape == (devices - 1,)
    assert sum(p.numel() for p in agent.actor.parameters()) == actor
    assert sum(p.numel() for p in agent.critic.parameters()) == critic


def test_environment_passes_gymnasiums_examination() -> None:
    """Gymnasium's own checker finds no fault."""
    with warnings.catch_warnings():
        # It wants an environment that its registry made.
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(_environment())


def test_reward_comes_at_the_end_and_is_one_over_the_time() -> None:
    """All steps but the last give nothing; the last gives the unit of time over the latency."""
    environment = _environment()
    environment.reset(seed=0)
    rewards = []
    ended = False
    while not ended:
        action = environment.action_space.sample()
        observation, reward, ended, _, info = environment.step(action)
        rewards.append(reward)
    assert len(rewards) == len(environment.process.volumes)
    assert rewards[:-1] == [0.0] * (len(rewards) - 1)
    assert rewards[-1] == pytest.approx(0.01 / info["latency_s"])
    assert observation[-4:].tolist() == [0.0] * 4


def test_critic_and_actor_learn_at_their_own_rates() -> None:
    """The first step of Adam is as long as the learning rate: the two published ones."""
    environment = _environment()
    agent = _agent(environment)
    before = agent.weights()
    state, _ = environment.reset()
    agent.remember(state, np.array([0.1, -0.3], np.float32), 1.0, (state, True))
    agent.train(gradient_steps=1, batch_size=8)
    for name, rate in (("actor", 1e-4), ("critic", 1e-3)):
        key = "mu.0.weight" if name == "actor" else "qf0.0.weight"
        moved = (agent.weights()[name][key] - before[name][key]).abs().max().item()
        assert moved == pytest.approx(rate, rel=0.05)


def test_target_of_a_last_step_is_its_reward_alone() -> None:
    """A critic that sees nothing but last steps with reward 1 learns 1, and not 1 / (1 - 0.99)."""
    environment = _environment()
    agent = _agent(environment, replace(FEW, critic_rate=3e-3))
    state, _ = environment.reset()
    rng = np.random.default_rng(0)
    for _ in range(32):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        agent.remember(state, action, 1.0, (state, True))
    with one_thread():
        agent.train(gradient_steps=100, batch_size=16)
        with torch.no_grad():
            value = agent.critic(torch.from_numpy(state[None]), torch.zeros(1, 2))[0].item()
    assert value == pytest.approx(1.0, abs=0.2)


def test_raw_actions_are_remembered() -> None:
    """What the replay holds is what was drawn: not sorted, not rounded to rows."""
    environment = _environment(4)
    agent = _agent(environment)
    Training(environment, agent, replace(PUBLISHED, episodes=6, batch=8), 0).run()
    assert agent.replay_buffer is not None
    kept = agent.replay_buffer.actions[: agent.remembered, 0]
    assert len(kept) == 6 * len(environment.process.volumes)
    assert (np.diff(kept, axis=1) < 0).any()


def test_best_plan_is_the_best_that_was_observed() -> None:
    """The plan kept has the least latency of all episodes, the starts among them."""
    process = small_process()
    found = train(process, FEW)
    assert found.latency_s == min(found.latencies_s)
    assert found.decisions is not None
    assert process.latency_s(found.decisions) == found.latency_s
    starts = [process.latency_s(start) for start in start_plans(process)]
    assert list(found.latencies_s[: len(starts)]) == starts


def test_equal_seeds_train_equally_and_leave_generators_alone() -> None:
    """Two trainings are the same to the last episode, and draws outside them go on undisturbed."""
    np.random.seed(5)
    torch.manual_seed(5)
    expected = np.random.rand(), torch.rand(1).item()
    np.random.seed(5)
    torch.manual_seed(5)
    first = train(small_process(), FEW)
    assert (np.random.rand(), torch.rand(1).item()) == expected
    again = train(small_process(), FEW)
    other = train(small_process(seed=1), FEW)
    assert first.latencies_s == again.latencies_s
    assert first.latencies_s != other.latencies_s


def test_control_explores_without_learning() -> None:
    """With learning off the weights stay as they were drawn, and plans are tried all the same."""
    environment = _environment()
    agent = _agent(environment)
    before = agent.weights()
    found = Training(environment, agent, replace(FEW, learn=False), 0).run()
    assert len(found.latencies_s) == 12
    for name, part in agent.weights().items():
        assert all(torch.equal(value, before[name][key]) for key, value in part.items())


def test_checkpoint_comes_back_and_fits_its_own_size_only(tmp_path: Path) -> None:
    """Actor and critic are reloaded; another number of providers is refused with both sizes."""
    path = tmp_path / "actor.pt"
    process = small_process()
    found = train(process, replace(FEW, save=str(path)))
    loaded = load_checkpoint(path, 3)
    assert all(
        torch.equal(value, found.weights["actor"][key])
        for key, value in loaded.weights["actor"].items()
    )
    again = train(process, replace(FEW, episodes=1, warm=False, perturb=0.0, load=str(path)))
    assert len(again.latencies_s) == 1
    with pytest.raises(PlanError, match=r"3 providers \(states of 7\), the cluster has 4"):
        train(small_process(small_cost(4)), replace(FEW, load=str(path)))


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    """A missing file, a damaged one, and one of something else are named."""
    path = tmp_path / "none.pt"
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        load_checkpoint(path, 3)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(PlanError, match="is not one that 'distredge' saved"):
        load_checkpoint(path, 3)
    torch.save({"other": 1}, path)
    with pytest.raises(PlanError, match="is not one that 'distredge' saved"):
        load_checkpoint(path, 3)
    gone = str(tmp_path / "no" / "file.pt")
    with pytest.raises(PlanError, match="cannot be written: No such file"):
        train(small_process(), replace(FEW, episodes=1, load=gone, save=gone))


def test_actor_splits_by_measured_latencies() -> None:
    """Online, what was measured decides: other latencies may give other cuts, equal ones equal."""
    splitter = OnlineSplitter(small_cost(), settings=FEW)
    number = len(splitter.volumes) - 1
    cuts = splitter.decide(number, (0.1, 0.2, 0.3))
    assert cuts == splitter.decide(number, (0.1, 0.2, 0.3))
    observation = splitter.observer.observe(number, (0.1, 0.2, 0.3))
    assert cuts == cut_rows(splitter.agent.act(observation), splitter.process.heights[number])
    best = splitter.best_plan()
    assert best is not None
    plan = splitter.plan()
    assert plan.planner == "distredge"
    measured = accumulated_latencies(_simulate(splitter, plan), number + 1, ("d0", "d1", "d2"))
    predicted = splitter.plan(measured)
    assert predicted.stages == plan.stages


def _simulate(splitter: OnlineSplitter, plan: object) -> Report:
    cost = splitter.process.evaluator.cost
    from partita.compile import build_layout

    layout = build_layout(cost.graph, plan, cost.cluster)  # type: ignore[arg-type]
    return simulate(layout.program, cost.price(layout), requests=2)


def test_fine_tuning_follows_changed_links() -> None:
    """A tenth of the bandwidth is noticed, and the actor is trained on from where it was."""
    splitter = OnlineSplitter(small_cost(), settings=FEW)
    slower = small_cost(bandwidth=3e6)
    assert splitter.has_changed(slower.cluster)
    assert not splitter.has_changed(small_cost().cluster)
    found = splitter.fine_tune(slower, episodes=9)
    assert len(found.latencies_s) == 9
    assert not splitter.has_changed(slower.cluster)
    assert found.latency_s >= 0
