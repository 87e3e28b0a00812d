"""What the three tables share: a bench per model, times in columns, claims."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table
from partita.reproduce.loading.bench.load_bench import LoadBench, TrialOptions
from partita.reproduce.loading.bench.trials import LoadTrial
from partita.reproduce.loading.bench.variants import find_starts
from partita.reproduce.loading.published import TITLES, Measured

#: Within one operator: a telephone's fast cores, or what there is.
THREADS = min(4, os.cpu_count() or 1)
#: A gain of at least so much of the paper's bears it out. Not tuned.
_ABOUT = 0.9
Medians = Mapping[str, Mapping[str, LoadTrial]]


def draw_nothing(number: int, models: Iterable[str]) -> Drawn:
    """A table that has none of the models asked for."""
    note = f"Table {number} has none of the models asked for, but: {', '.join(models)}."
    return Drawn((), (), (), (note,))


def open_load_bench(bench: Bench, model: str, starts: Sequence[str] = ()) -> LoadBench:
    """A model's bench; it must be closed."""
    study = bench.study
    return LoadBench(
        bench.build(model),
        TrialOptions(THREADS, study.trials, study.cold),
        starts,
        lambda what: bench.advance(f"{model}, {what}"),
    )


def weight_bytes(model: Any, starts: Sequence[str]) -> list[int]:
    """The bytes of the weights of children that begin with these layers."""
    nodes = list(model.graph.node)
    sizes = {
        weight.name: len(weight.raw_data) or 4 * math.prod(weight.dims)
        for weight in model.graph.initializer
    }
    places = [*find_starts(model, starts), len(nodes)]
    return [
        sum(sizes.get(name, 0) for node in nodes[start:stop] for name in node.input)
        for start, stop in pairwise(places)
    ]


def bound_by(sizes: Sequence[float]) -> float:
    """How many times faster children load at the same time at most: all over the largest."""
    return sum(sizes) / max(sizes)


def state(bench: Bench) -> str:
    """Where the files are, in words, and how often it was tried."""
    study = bench.study
    where = "from disk" if study.cold else "from the page cache"
    trials = "one trial" if study.trials == 1 else f"medians of {study.trials} trials"
    return f"{where}, {trials}, {THREADS} thread{'s' if THREADS > 1 else ''}"


def time_table(title: str, medians: Medians, variants: Mapping[str, str], key: str) -> Table:
    """Milliseconds: a row per model, a column per variant.

    Args:
        medians: By model and variant.
        variants: Heads of the columns by variant; those that were not tried are left out.
        key: Which of a trial's times.
    """
    tried = {
        variant: head
        for variant, head in variants.items()
        if all(variant in trials for trials in medians.values())
    }
    rows: list[tuple[Cell, ...]] = [
        (TITLES[model], *(1e3 * getattr(trials[variant], key) for variant in tried))
        for model, trials in medians.items()
    ]
    return Table(title, ("model", *tried.values()), tuple(rows))


def time_chart(title: str, medians: Medians, variants: Mapping[str, str]) -> Chart:
    """Bars of the time to the first answer: a group per model, a bar per variant."""
    places = tuple(TITLES[model] for model in medians)
    series = {
        head: tuple(1e3 * trials[variant].answered_s for trials in medians.values())
        for variant, head in variants.items()
        if all(variant in trials for trials in medians.values())
    }
    return Chart(title, "bars", places, series, "model", "ms from the call to the first answer")


@dataclass(frozen=True)
class Gains:
    """How many times faster children are than the whole model.

    Attributes:
        loads: Until all is loaded.
        answers: Until the first answer.
        together: Until all is loaded, against the same children one after the other.
        bound: The most that ``together`` can be.
    """

    loads: float
    answers: float
    together: float
    bound: float

    @classmethod
    def of(cls, whole: LoadTrial, children: LoadTrial, in_turn: LoadTrial) -> Gains:
        """The gains of children that load at the same time."""
        return cls(
            whole.loaded_s / children.loaded_s,
            whole.answered_s / children.answered_s,
            in_turn.loaded_s / children.loaded_s,
            in_turn.speedup_bound,
        )


def claim_gain(model: str, paper: Measured, gains: Gains) -> Claim:
    """The paper's gain beside ours, and what is possible."""
    said = f"{paper.span} by loading {paper.count} children at the same time"
    ours = (
        f"{gains.loads:.2f}x until all is loaded, {gains.answers:.2f}x until the first answer;"
        f" loading the children at the same time, not in turn, gives {gains.together:.2f}x of a"
        f" possible {gains.bound:.2f}x"
    )
    holds = gains.loads >= _ABOUT * paper.gain
    return Claim(TITLES[model], said, ours, holds, "measurement")


def name_impossible(papers: Mapping[str, Measured], bounds: Mapping[str, float]) -> list[str]:
    """A sentence that names the paper's gains that loading at the same time cannot give.

    Args:
        bounds: Most that is possible with the paper's children.
    """
    beyond = {
        model: (sum(gain > bounds[model] for gain in paper.gains), len(paper.gains))
        for model, paper in papers.items()
    }
    told = [
        f"{TITLES[model]} ({papers[model].span}, at most {bounds[model]:.2f}x; {count} of {of})"
        for model, (count, of) in beyond.items()
        if count
    ]
    if not told:
        return []
    return [
        "Impossible by loading at the same time, whatever the machine: the paper's gains for"
        f" {', '.join(told)}. Loading lasts as long as the largest child's does, so that it gains"
        " no more than all loads over the longest; what the paper took beyond it must have had"
        " other causes, such as a first use of the GPU that only the whole model was charged."
    ]
