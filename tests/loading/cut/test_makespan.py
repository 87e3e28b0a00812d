"""Times of children that load at the same time, by hand, by events, and by their bounds."""

from __future__ import annotations

import random
from dataclasses import astuple, replace

import pytest

from partita.errors import BundleError
from partita.loading import Problem, simulate_loading
from partita.loading.cut.makespan import simulate_children
from tests.loading.cut.drawn import all_divisions, draw_problem, make_profile, simulate_slowly


def test_case_1_all_load_at_once() -> None:
    """With a loader each, children of 1, 4 and 2 s are there after 1, 4 and 2 s."""
    found = simulate_children([1, 4, 2], [2, 1, 1], loaders=3, contention=1)
    assert [astuple(child) for child in found.children] == [
        (0, 1, 1, 3),
        (0, 4, 4, 5),
        (0, 2, 5, 6),
    ]
    assert found.makespan_s == 6
    assert found.speedup_bound == pytest.approx(7 / 4)


def test_case_2_loaders_take_the_next_child_when_they_are_free() -> None:
    """Two loaders: the third child begins when the first is loaded, the fourth with the second."""
    found = simulate_children([1, 4, 2, 3], [5, 1, 1, 1], loaders=2, contention=1)
    assert [astuple(child) for child in found.children] == [
        (0, 1, 1, 6),
        (0, 4, 6, 7),
        (1, 3, 7, 8),
        (3, 6, 8, 9),
    ]


def test_contention_by_hand() -> None:
    """Loads of 1 and 3 s that hold each other up by half: 1.5 s together, then 2 s alone."""
    found = simulate_children([1, 3], [0.25, 1], loaders=2, contention=1.5)
    assert [astuple(child) for child in found.children] == [
        (0, 1.5, 1.5, 1.75),
        (0, 3.5, 3.5, 4.5),
    ]


def test_full_contention_gains_nothing() -> None:
    """At 2, loads at the same time are there no sooner than after each other."""
    loads = [1.0, 2.0, 3.0]
    for loaders in (1, 2, 3):
        found = simulate_children(loads, [0, 0, 0], loaders=loaders, contention=2)
        assert found.makespan_s == pytest.approx(6)


@pytest.mark.parametrize("seed", range(60))
def test_equal_to_events_one_by_one(seed: int) -> None:
    """The closed form says what a walk through all events says."""
    rng = random.Random(seed)
    loads = [rng.random() for _ in range(rng.randint(1, 9))]
    computes = [rng.random() * 0.5 for _ in loads]
    loaders, contention = rng.randint(1, 10), 1 + rng.random() * 2
    found = simulate_children(loads, computes, loaders=loaders, contention=contention)
    wanted = simulate_slowly(loads, computes, loaders, contention)
    for child, times in zip(found.children, wanted, strict=True):
        assert astuple(child) == pytest.approx(times)


@pytest.mark.parametrize("seed", range(30))
def test_no_makespan_below_its_bounds(seed: int) -> None:
    """Not below all work, nor the largest load, nor all loads over the loaders; and it is monotone.

    Nor does it fall when a block takes longer.
    """
    problem = draw_problem(seed)
    for ends in all_divisions(problem, min(4, problem.most_children)):
        found = problem.simulate(ends)
        pairs = list(zip((0, *ends[:-1]), ends, strict=True))
        loads = [problem.load_s(*pair) for pair in pairs]
        work_s = sum(problem.compute_s(*pair) for pair in pairs)
        late = [at_s + sum(problem.computes[n:]) for n, at_s in enumerate(problem.arrivals)]
        least_s = max(loads[0] + work_s, max(loads), sum(loads) / problem.loaders, *late)
        assert found.makespan_s >= least_s * (1 - 1e-12)
        assert 1 <= found.speedup_bound <= len(ends) + 1e-9
        for place in range(problem.size):
            longer = list(problem.loads)
            longer[place] += 0.5
            slower = replace(problem, loads=tuple(longer)).simulate(ends)
            assert slower.makespan_s >= found.makespan_s - 1e-12
            for one, other in zip(found.children, slower.children, strict=True):
                assert other.load_end_s >= one.load_end_s - 1e-12


def test_conditions_choose_the_times() -> None:
    """Cold weights take longer, and so does prepacking them; each child has its fixed cost."""
    profile = make_profile([1, 2], [1, 1], child_load_s=0.5)
    assert simulate_loading(profile, (2,), loaders=1).makespan_s == 0.5 + 3 + 2
    assert simulate_loading(profile, (2,), loaders=1, prepack=True).makespan_s == 0.5 + 6 + 2
    cold = simulate_loading(profile, (2,), loaders=1, cold=True, mapped=False)
    assert cold.makespan_s == 0.5 + 33 + 2
    # Cold loads share the disk: the profile's cold contention is 2.
    cold = simulate_loading(profile, (1, 2), loaders=2, cold=True, mapped=False)
    assert [child.load_end_s for child in cold.children] == [23.0, 34.0]


def test_weights_that_are_read_ahead() -> None:
    """Mapped weights are read from the first moment on, and a block runs when its are there."""
    profile = make_profile([1, 2], [1, 5])  # read after 10 and 30 s
    for ends in ((2,), (1, 2)):
        found = simulate_loading(profile, ends, loaders=2, cold=True)
        assert found.makespan_s == 35
    assert found.children[0].compute_end_s == 11
    # Only what is left after the last weights counts: 2 s of loading are long over.
    assert found.children[1].load_end_s == 2


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((2, 2, 4), "Children end before blocks 2, 2, 4: allowed are increasing numbers from 1"),
        ((1, 3), "the last of them 4"),
        ((3, 4), "it must hold all trainable blocks; allowed: 1 to 3"),
        ((1, 2, 3, 4), "4 children: the model has 4 blocks, .* allowed: 1 to 3"),
        ((), "0 children"),
    ],
)
def test_ends_that_are_no_division(ends: tuple[int, ...], message: str) -> None:
    """The error says what is allowed; blocks 3 and 4 of four may be trained."""
    profile = make_profile([1] * 4, [1] * 4, trainable=2)
    with pytest.raises(BundleError, match=message):
        simulate_loading(profile, ends, loaders=1)


def test_no_loader() -> None:
    """Somebody has to load."""
    with pytest.raises(BundleError, match="0 loaders: allowed are 1 or more"):
        Problem.of(make_profile([1], [1]), loaders=0)
