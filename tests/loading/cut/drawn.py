"""Problems and profiles drawn at random, and the slow answers that the quick ones must equal."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from partita.loading.cut.blocks import Block, BlockProfile
from partita.loading.cut.makespan import Problem


def draw_problem(seed: int, size: int | None = None) -> Problem:
    """Return a problem of unequal blocks, of some contention, with or without trainable blocks."""
    rng = random.Random(seed)
    size = size or rng.randint(1, 8)
    work = rng.choice([0.1, 1.0, 3.0])
    arrivals = tuple(itertools.accumulate(rng.random() * work for _ in range(size)))
    return Problem(
        loads=tuple(rng.random() * rng.choice([1, 5]) for _ in range(size)),
        computes=tuple(work * rng.random() for _ in range(size)),
        child_load_s=rng.choice([0.0, 0.3]),
        child_run_s=rng.choice([0.0, 0.1]),
        contention=rng.choice([1.0, 1.3, 2.0, 2.5]),
        loaders=rng.randint(1, 6),
        last_start=rng.choice([-1, -1, rng.randrange(size)]),
        arrivals=rng.choice([(), arrivals]),
    )


@st.composite
def problems(draw: st.DrawFn, most_blocks: int = 6) -> Problem:
    """Problems of every kind: ties and idle blocks, contention, late weights, trainable layers."""
    seconds = st.integers(0, 40).map(lambda number: number / 8)
    size = draw(st.integers(1, most_blocks))
    each = st.lists(seconds, min_size=size, max_size=size).map(tuple)
    work = draw(st.sampled_from([0.0, 0.125, 1.0]))  # what loads count for depends on it
    last_start = draw(st.sampled_from([-1, *range(size)]))
    return Problem(
        loads=draw(each),
        computes=tuple(work * run_s for run_s in draw(each)),
        child_load_s=draw(seconds),
        child_run_s=work * draw(seconds),
        contention=draw(st.integers(8, 24)) / 8,
        loaders=draw(st.integers(1, size + 1)),
        last_start=last_start,
        arrivals=tuple(itertools.accumulate(draw(each))) if draw(st.booleans()) else (),
        apart=last_start > 0 and draw(st.booleans()),
    )


def make_profile(
    loads: Sequence[float],
    computes: Sequence[float],
    *,
    trainable: int = 0,
    child_load_s: float = 0,
) -> BlockProfile:
    """Return a profile of blocks of three layers each; the last ``trainable`` may be trained."""
    blocks = tuple(
        Block(
            name=f"b{place}",
            first=3 * place,
            stop=3 * place + 3,
            weight_bytes=1000 * (place + 1),
            create_s=load,
            prepack_s=load,
            read_warm_s=0.0,
            read_cold_s=10 * load,
            infer_s=compute,
            first_s=compute,
            trainable=place >= len(loads) - trainable,
        )
        for place, (load, compute) in enumerate(zip(loads, computes, strict=True))
    )
    return BlockProfile("m", "0" * 64, "engine", 1, True, blocks, child_load_s, 0.0, 1.0, 2.0, 1e9)


def all_divisions(problem: Problem, most_children: int) -> Iterator[tuple[int, ...]]:
    """Yield every division allowed, those of fewer children first."""
    for count in range(1, most_children + 1):
        for inner in itertools.combinations(range(1, problem.last_cut + 1), count - 1):
            if not problem.apart or inner[-1:] == (problem.last_cut,):
                yield (*inner, problem.size)


def simulate_slowly(
    loads: Sequence[float], computes: Sequence[float], loaders: int, contention: float
) -> list[tuple[float, float, float, float]]:
    """Return per child when it loads and computes, event by event."""
    now, left, running = 0.0, list(loads), []
    begun, loaded = [0.0] * len(loads), [0.0] * len(loads)
    waiting = list(range(len(loads)))
    while waiting or running:
        while waiting and len(running) < loaders:
            running.append(waiting.pop(0))
            begun[running[-1]] = now
        pace = 1 / (1 + (contention - 1) * (len(running) - 1))
        least = min(left[child] for child in running)
        now += least / pace
        for child in list(running):
            left[child] -= least
            if left[child] <= 1e-12:
                running.remove(child)
                loaded[child] = now
    found, answered = [], 0.0
    for child, compute in enumerate(computes):
        start = max(loaded[child], answered)
        answered = start + compute
        found.append((begun[child], loaded[child], start, answered))
    return found
