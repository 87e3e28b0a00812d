"""The methods behind one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from partita.errors import BundleError
from partita.graph import load_graph
from partita.loading import (
    TrialLoads,
    choose_division,
    measure_blocks,
)
from partita.zoo import build_model
from tests.loading.cut.drawn import draw_problem, make_profile


@pytest.mark.parametrize("method", ["best", "qlearning", "sarsa", "optimum", "balanced"])
def test_every_method_answers_in_layers(method: Any) -> None:
    """Ends are numbers of layers, the trainable blocks lie in the last child, alone."""
    profile = make_profile([1, 2, 3, 1, 1], [0.1] * 5, trainable=2)
    choice = choose_division(profile, method=method, loaders=4)
    assert choice.ends == tuple(3 * end for end in choice.chosen.ends)
    assert choice.ends[-1] == 15
    assert choice.ends[-2] == 9
    assert choice.chosen.makespan_s <= choice.whole_s
    assert choice.chosen.gap >= 0
    assert choice.speedup_bound >= 1


def test_best_says_by_how_much() -> None:
    """The better of two comes first, and the gain is that over the other one."""
    problem = draw_problem(4, size=16)
    profile = make_profile(problem.loads, problem.computes)
    choice = choose_division(profile, loaders=4, most_children=6)
    assert {result.method for result in choice.results} == {"optimum", "balanced"}
    first, second = choice.results
    assert choice.chosen == first
    assert choice.gain == pytest.approx(second.makespan_s / first.makespan_s - 1)
    assert choice.gain >= 0
    assert choose_division(profile, method="optimum", loaders=4).gain == 0


def test_what_cannot_be_chosen() -> None:
    """A method that does not exist, and more children than can be, are refused."""
    profile = make_profile([1] * 4, [1] * 4, trainable=2)
    with pytest.raises(BundleError, match="Method 'guess' is unknown; allowed: best, optimum"):
        choose_division(profile, method="guess", loaders=1)  # type: ignore[arg-type]
    for method in ("best", "qlearning", "balanced"):
        with pytest.raises(BundleError, match=r"4 children: the model has 4 blocks.*2 to 3"):
            choose_division(profile, method=method, loaders=1, most_children=4)  # type: ignore[arg-type]


class FakeTrialLoads:
    """Says how long divisions take, and remembers which were asked for."""

    def __init__(self, times: dict[int, float], prepack_s: float = 1.0) -> None:
        self.times = times
        self.prepack_s = prepack_s
        self.loaded: list[tuple[int, int]] = []

    def answer_s(self, divisions: list[tuple[int, ...]], *, prepack: bool = False) -> list[float]:
        """Return seconds by number of children."""
        return [self.times.get(len(ends), 9.0) + self.prepack_s * prepack for ends in divisions]

    def check(self, profile: Any, loaders: int, *, cold: bool) -> None:
        """Fit whatever is asked for."""

    def load_s(self, start: int, stop: int) -> float:
        """Return seconds by number of blocks."""
        self.loaded.append((start, stop))
        return float(stop - start)


def test_what_is_really_loaded_decides() -> None:
    """Against the simulation, and among equals for the fewest children."""
    profile = make_profile([1, 1, 1, 1], [0.1] * 4)
    simulated = choose_division(profile, loaders=4)
    many = simulated.chosen.children
    assert many > 1
    for times, wanted in (
        ({1: 1.0, many: 2.0}, 1),
        ({1: 2.0, many: 1.0}, many),
        ({1: 1.08, many: 1.0}, 1),
    ):
        trial_loads: Any = FakeTrialLoads(times)
        choice = choose_division(profile, loaders=4, trial_loads=trial_loads)
        assert choice.chosen.children == wanted
        assert choice.chosen.measured_s == times[wanted]
        assert not trial_loads.loaded
        assert not choice.prepack
    for prepack_s, prepack in ((-0.05, False), (-0.4, True)):
        trial_loads = FakeTrialLoads({1: 1.0}, prepack_s=prepack_s)
        choice = choose_division(profile, loaders=4, trial_loads=trial_loads)
        assert choice.prepack == prepack
    personal = make_profile([1, 1, 1, 1], [0.1] * 4, trainable=1)
    trial_loads = FakeTrialLoads({1: 0.5})
    choice = choose_division(personal, loaders=4, trial_loads=trial_loads)
    assert choice.chosen.ends[-2:] == (3, 4)
    trial_loads = FakeTrialLoads({})
    choose_division(
        profile, method="qlearning", loaders=4, trial_loads=trial_loads, real_rewards=True
    )
    assert len(trial_loads.loaded) == len(set(trial_loads.loaded)) > 4


def test_trying_loads_real_children() -> None:
    """Children and bundles are written, loaded and removed again."""
    graph = load_graph(build_model("mobilenet_v1", size=32))
    profile = measure_blocks(graph, most_blocks=4, repeats=1)
    told: list[str] = []
    with TrialLoads(
        graph, profile, loaders=1, repeats=1, progress=lambda done, total, name: told.append(name)
    ) as trial_loads:
        assert 0 < trial_loads.load_s(0, 1) < 5
        assert 0 < trial_loads.load_s(1, 3) < 5
        times = trial_loads.answer_s([(4,), (1, 4)])
        home = Path(trial_loads._folder.name)
        assert home.is_dir()
    assert not home.exists()
    assert all(0 < one < 5 for one in times)
    assert len(told) == 2 + 2 + 2


@pytest.mark.parametrize("method", ["best", "balanced", "qlearning"])
@pytest.mark.parametrize("trainable", [0, 1])
def test_gaps_are_those_to_the_optimum(method: Any, trainable: int) -> None:
    """Of every row, also of what is not asked for; trainable layers are a child of their own."""
    profile = make_profile([3, 1, 2, 1, 2], [0.4, 0.1, 0.3, 0.2, 0.1], trainable=trainable)
    optimum = choose_division(profile, method="optimum", loaders=3).chosen
    trial_loads: Any = FakeTrialLoads({})
    choice = choose_division(profile, method=method, loaders=3, trial_loads=trial_loads)
    for one in choice.results:
        assert one.gap == pytest.approx(one.makespan_s / optimum.makespan_s - 1, abs=1e-8)
        assert not trainable or one.ends[-2:] == (4, 5)
    names = {one.method for one in choice.results}
    assert ("trainable apart" if trainable else "one child") in names


def test_trial_loads_of_something_else() -> None:
    """It is refused before anything is loaded, and so is one that is not open."""
    graph = load_graph(build_model("squeezenet", size=64))
    other = load_graph(build_model("mobilenet_v1", size=32))
    profile = measure_blocks(graph, most_blocks=2, repeats=1)
    with pytest.raises(BundleError, match="is of model"):
        TrialLoads(other, profile, loaders=1)
    for wrong in ({"loaders": 0}, {"loaders": 1, "repeats": 0}):
        with pytest.raises(BundleError, match="got 0; allowed: 1 to"):
            TrialLoads(graph, profile, **wrong)
    with TrialLoads(graph, profile, loaders=1) as trial_loads:
        for wrong in ({"loaders": 2}, {"loaders": 1, "cold": True}):
            with pytest.raises(BundleError, match="both must be the same"):
                choose_division(profile, trial_loads=trial_loads, **wrong)
        with pytest.raises(BundleError, match="a method that learns"):
            choose_division(
                profile, method="optimum", loaders=1, trial_loads=trial_loads, real_rewards=True
            )
    with pytest.raises(BundleError, match="'with' statement"):
        choose_division(profile, loaders=1, trial_loads=trial_loads)
    for wrong in ({"threads": 0}, {"repeats": 0}, {"threads": True}):
        with pytest.raises(BundleError, match="allowed: 1 to"):
            measure_blocks(graph, **wrong)
