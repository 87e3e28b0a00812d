"""Where methods are measured: the same model, costs and simulation for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from partita.cluster import Cluster, dump_cluster, load_cluster
from partita.cost import CostModel, CostOptions
from partita.errors import InfeasibleError
from partita.graph import Graph, load_graph
from partita.planners import PlanOptions, Result, find_plan, get_planner
from partita.reproduce.cache import ResultCache, code_digest
from partita.reproduce.lanes import compute_times, transmission_times
from partita.reproduce.study import Case, Outcome, Series, Setting, Study
from partita.scenarios import PREFIX
from partita.simulation import predict
from partita.zoo import build_model

Build = Callable[[str], Any]
Advance = Callable[[str], None]
#: Methods that draw at random: each is run once per seed.
RANDOMISED = ("distredge", "distredge_published")
#: What travels lossy: tensors of single precision, so that all have the paper's half precision.
_WIDE = "float32"


class Bench:
    """Plans and simulates cases; remembers what it did, on disk too.

    Args:
        advance: Called with what is measured next.
        load_model: Returns a model's graph by name.
        build: Returns a model as ONNX by name, for what runs engines; the zoo's by default.
    """

    def __init__(
        self,
        study: Study,
        *,
        cache: ResultCache | None = None,
        advance: Advance | None = None,
        load_model: Callable[[str], Graph] | None = None,
        build: Build = build_model,
    ) -> None:
        self.study = study
        self.cache = cache or ResultCache(None)
        self.advance = advance or (lambda what: None)
        self.graph = lru_cache(maxsize=2)(load_model or load_zoo_graph)
        self.build = build
        self.cost = lru_cache(maxsize=4)(self._price)

    def _price(self, scenario: str, model: str) -> CostModel:
        options = CostOptions(precision=self.study.precision)
        return CostModel(self.graph(model), find_cluster(scenario), options=options)

    def seeds(self, planner: str) -> tuple[int, ...]:
        """The seeds that a method is run with: one where it does not draw."""
        return self.study.seeds if planner in RANDOMISED else (0,)

    def settings(self, planner: str) -> dict[str, Setting]:
        """What the study says of a method."""
        learns = planner in RANDOMISED and self.study.episodes is not None
        return {"episodes": self.study.episodes or 0} if learns else {}

    def run(self, scenario: str, model: str, planner: str, **settings: Setting) -> Series:
        """A method's outcomes: one per seed where it draws, else one."""
        told = self.settings(planner) | settings
        cases = [Case(scenario, model, planner, seed, told) for seed in self.seeds(planner)]
        return Series(tuple(self.measure(case) for case in cases))

    def measure(self, case: Case) -> Outcome:
        """One case's outcome, kept or new."""
        get_planner(case.planner)
        self.advance(case.title)
        key = self.key("outcome", case)
        outcome = self.cache.get(key, Outcome)
        if outcome is None:
            outcome = self._measure(case)
            self.cache.put(key, outcome)
        return outcome

    def key(self, what: str, case: Case) -> dict[str, object]:
        """Everything that decides a case's result."""
        study = self.study
        return {
            "what": what,
            "cluster": dump_cluster(find_cluster(case.scenario)),
            "model": case.model,
            "planner": case.planner,
            "seed": case.seed,
            "settings": dict(case.settings),
            "allowed": [case.axes, case.compress],
            "options": [study.precision, study.wire, study.images, study.budget_s],
            "code": code_digest(),
        }

    def plan(self, case: Case) -> Result:
        """What a case's planner decides.

        Raises:
            InfeasibleError: It finds no plan.
        """
        cost = self.cost(case.scenario, case.model)
        return find_plan(cost, planner=case.planner, options=self.options(case))

    def options(self, case: Case, *, budget_s: float | None = None) -> PlanOptions:
        """What a case's planner is told; the study's budget unless another is given."""
        wires = {}
        if case.compress is None:
            tensors = self.graph(case.model).tensors.values()
            wires = {spec.name: self.study.wire for spec in tensors if spec.dtype == _WIDE}
        return PlanOptions(
            most_s=self.study.budget_s if budget_s is None else budget_s,
            seed=case.seed,
            wires=wires,
            axes=case.axes,
            compress=case.compress,
            method={f"{case.planner}.{key}": str(value) for key, value in case.settings.items()},
        )

    def _measure(self, case: Case) -> Outcome:
        try:
            result = self.plan(case)
        except InfeasibleError as error:
            return Outcome(fault=str(error))
        cost = self.cost(case.scenario, case.model)
        single = predict(cost, result.plan, in_flight=1)
        images = self.study.images
        stream = predict(cost, result.plan, requests=images, in_flight=1, keep_spans=False)
        providers = cost.cluster.providers
        return Outcome(
            latency_s=single.latencies_s[0],
            images_per_second=stream.images_per_second,
            compute_s=compute_times(single, providers),
            transmission_s=transmission_times(single, cost.cluster),
            stages=len(result.plan.stages),
            search_s=result.search_s,
            evaluations=result.evaluations,
        )


def load_zoo_graph(name: str) -> Graph:
    """A model of the zoo with weights from seed 0."""
    return load_graph(build_model(name))


@lru_cache(maxsize=32)
def find_cluster(scenario: str) -> Cluster:
    """A shipped cluster by its name."""
    return load_cluster(f"{PREFIX}{scenario}")
