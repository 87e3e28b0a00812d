"""One model on the test bench: written in the variants asked for, loaded in turns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import onnx

from partita.engine import make_feeds
from partita.graph import Graph, load_graph
from partita.loading.cut.blocks import BlockProfile
from partita.loading.cut.branch_and_bound import balance_loads
from partita.loading.cut.choose import Choice, choose_division
from partita.loading.cut.makespan import Problem
from partita.loading.cut.measure_blocks import measure_blocks
from partita.loading.cut.page_cache import settle
from partita.loading.cut.trial_loads import TrialLoads
from partita.regions import Array
from partita.reproduce.loading.bench.trials import LoadTrial, answer, middle, run_trials
from partita.reproduce.loading.bench.variants import (
    WRITERS,
    ModelVariant,
    ship_bundle,
    ship_children,
    ship_torch,
)

PLAIN = "plain"
#: Which writer makes a variant, where its name does not say so.
_WRITTEN_BY = {
    "external_no_prepack": "external",
    "optimised_prepack": "optimised",
    "optimised_still": "optimised",
    "optimised_brief": "optimised",
    "bundle_no_ahead": "bundle",
    "children_in_turn": "children",
}


@dataclass(frozen=True)
class TrialOptions:
    """How a model is tried.

    Attributes:
        trials: Processes per variant.
        cold: Whether files are dropped from the page cache before each.
        repeats: Times that blocks are measured, for where to cut the bundle.
    """

    threads: int = 1
    trials: int = 10
    cold: bool = False
    repeats: int = 5


@dataclass
class LoadBench:
    """A model, its variants, and what they take to load; use it in a ``with`` statement.

    Files are written when a variant is first asked for, and go when the bench is closed.

    Attributes:
        model: As ONNX; one input, one output, where PyTorch is asked for.
        starts: Layers with which child models begin, for the variants that load them as the paper
            does.
        advance: Called with what comes next.
    """

    model: onnx.ModelProto
    options: TrialOptions
    starts: Sequence[str] = ()
    advance: Callable[[str], None] = lambda what: None
    _shipped: dict[str, ModelVariant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="partita-bench-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @cached_property
    def graph(self) -> Graph:
        """The model, to be cut."""
        return load_graph(self.model)

    @cached_property
    def feeds(self) -> dict[str, Array]:
        """One request."""
        return make_feeds(self.graph.input_specs, 1)

    @cached_property
    def expected(self) -> list[Array]:
        """What the whole model answers."""
        return answer(self.ship(PLAIN), self.feeds)

    @cached_property
    def profile(self) -> BlockProfile:
        """The model's blocks as measured here."""
        options = self.options
        return measure_blocks(
            self.graph,
            threads=options.threads,
            repeats=options.repeats,
            progress=lambda done, total, name: self.advance(f"block {name}"),
        )

    @cached_property
    def choice(self) -> Choice:
        """Where the bundle is cut: as ``partita load split`` does."""
        cold = self.options.cold
        with TrialLoads(self.graph, self.profile, loaders=1, cold=cold) as trial_loads:
            return choose_division(self.profile, loaders=1, cold=cold, trial_loads=trial_loads)

    def balance(self, count: int) -> list[str]:
        """The layers with which ``count`` children begin that load in about equal times.

        Raises:
            BundleError: The model cannot be divided into that many.
        """
        cold = self.options.cold
        problem = Problem.of(self.profile, loaders=count, cold=cold, prepack=True, mapped=False)
        ends = self.profile.layer_ends(balance_loads(problem, count))
        return [self.graph.layers[start].name for start in (0, *ends[:-1])]

    def ship(self, variant: str) -> ModelVariant:
        """A variant of the model, written to disk the first time.

        Raises:
            KeyError: There is no such variant.
            BundleError: As the variant's writer.
        """
        if variant not in self._shipped:
            for written in self._write("torch" if variant.startswith("torch_") else variant):
                settle(written.files)
                self._shipped[written.name] = written
        return self._shipped[variant]

    def _write(self, variant: str) -> list[ModelVariant]:
        model, home, threads = self.model, Path(self._folder.name), self.options.threads
        writer = _WRITTEN_BY.get(variant, variant)
        self.advance(f"writing {writer}")
        if writer == "bundle":
            choice = self.choice
            return ship_bundle(model, home, threads, choice.ends, prepack=choice.prepack)
        if writer == "children":
            return ship_children(model, home, threads, self.starts)
        if writer == "torch":
            return ship_torch(model, home, threads, self.starts)
        return WRITERS[writer](model, home, threads)

    def run(
        self, variants: Sequence[str], *, cold: bool | None = None
    ) -> dict[str, list[LoadTrial]]:
        """The trials of each variant, which take turns.

        Args:
            variants: Names, as in :mod:`partita.reproduce.loading.bench.variants`.
            cold: Other than the options say, where it is given.

        Raises:
            RunError: A trial failed, or answered otherwise than the whole model.
        """
        chosen: Mapping[str, ModelVariant] = {variant: self.ship(variant) for variant in variants}
        return run_trials(
            chosen,
            self.feeds,
            self.expected,
            trials=self.options.trials,
            cold=self.options.cold if cold is None else cold,
            advance=self.advance,
        )

    def measure(self, variants: Sequence[str], *, cold: bool | None = None) -> dict[str, LoadTrial]:
        """The medians of :meth:`run`."""
        return {
            variant: middle(trials) for variant, trials in self.run(variants, cold=cold).items()
        }


def available(variants: Sequence[str]) -> tuple[str, ...]:
    """The variants whose packages are installed."""
    needs = {"torch_": "torch", "torch_safetensors": "safetensors"}
    missing = [start for start, package in needs.items() if find_spec(package) is None]
    return tuple(
        variant for variant in variants if not any(variant.startswith(start) for start in missing)
    )
