"""Judges of plans: what their networks answer to data apart from the samples, as scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec
import numpy as np

from partita.cluster import Cluster
from partita.compile import WholeModel, compile_plan, planned_graph
from partita.errors import InputError, PlanError
from partita.exactness.accuracy import Scores
from partita.exactness.compare import is_lossy_plan
from partita.exactness.interpret import run_program
from partita.graph import Graph
from partita.plan import Plan
from partita.quantisation.held_out import count_classes
from partita.quantisation.samples import Feeds, Sample
from partita.regions import Array

#: A network: from a request to its outputs by name.
Run = Callable[[Feeds], dict[str, Array]]
#: How good a network's answers to data are: the form of a user's own function, too.
Rule = Callable[[Run, Sequence[Sample]], Scores]
Advance = Callable[[int, int, str], None]
#: Told of the beginning of a judgement; gives what is told of its progress.
Progress = Callable[[], AbstractContextManager[Advance]]


@contextmanager
def _silent() -> Iterator[Advance]:
    yield lambda done, total, what: None


#: Rules by name, and what they count.
RULES = {
    "labels": "top-1",
    "agreement": "top-1 agreement with the float model",
    "signal": "part of the float outputs' power that is no noise",
}


class DataJudge:
    """Scores plans by a rule on data; what computes alike is run once.

    Args:
        graph: Not quantised.
        data: Apart from the samples that ranges are from.
        rule: What scores are.
        cluster: That plans are for.
    """

    def __init__(
        self,
        graph: Graph,
        data: Sequence[Sample],
        rule: Rule,
        cluster: Cluster,
        *,
        progress: Progress = _silent,
    ) -> None:
        self._graph, self._data, self._rule = graph, data, rule
        self._cluster, self._progress = cluster, progress
        self._known: dict[bytes, Scores] = {}

    def __call__(self, plan: Plan) -> Scores:
        """What the rule says of the network as the plan computes it.

        The division itself is exact: only of lossy transfers is it looked at.

        Raises:
            PlanError: The rule has scores, but not one for each sample.
        """
        what = (plan.bits, plan.integer_kernels, plan if is_lossy_plan(plan) else None)
        key = msgspec.json.encode(what, order="deterministic")
        if key not in self._known:
            run = self._open(plan)
            with self._progress() as advance:
                scores = self._rule(_count(run, len(self._data), advance), self._data)
            _check_count(scores, len(self._data))
            self._known[key] = scores
        return self._known[key]

    def _open(self, plan: Plan) -> Run:
        if not is_lossy_plan(plan):
            return WholeModel(planned_graph(self._graph, plan)).run
        compiled = compile_plan(self._graph, plan, self._cluster)
        return lambda feeds: run_program(compiled, feeds)[0]


def _check_count(scores: Scores, samples: int) -> None:
    shape = np.shape(scores)
    if len(shape) == 1 and shape != (samples,):
        raise PlanError(
            f"The judge of plans answered {shape[0]} scores for {samples} samples, allowed: a"
            " finite number, or one per sample."
        )


def _count(run: Run, total: int, advance: Advance) -> Run:
    done = 0

    def counted(feeds: Feeds) -> dict[str, Array]:
        nonlocal done
        advance(done, total, "judging")
        done += 1
        return run(feeds)

    return counted


def choose_rule(graph: Graph, data: Sequence[Sample], name: str = "") -> tuple[str, Rule]:
    """One of ``RULES`` for a network and its data, and what it counts in words.

    Args:
        graph: Not quantised.
        name: Of the rule; empty for ``labels`` where data has some, else ``agreement`` for a
            classifier, else ``signal``.

    Raises:
        InputError: There is no such rule, or it does not fit network or data.
    """
    is_classifier = count_classes(graph) is not None
    has_labels = all(sample.label is not None for sample in data)
    usual = "agreement" if is_classifier else "signal"
    name = name or ("labels" if has_labels else usual)
    if name not in RULES:
        raise InputError(
            f"Judge '{name}' is unknown; allowed: {', '.join(RULES)}, MODULE:FUNCTION.",
            subject=name,
        )
    if name == "labels" and not has_labels:
        raise InputError(
            "Judge 'labels' needs a folder of samples for each class.", subject="labels"
        )
    if name == "agreement" and not is_classifier:
        raise InputError(
            f"Judge 'agreement' needs scores of classes, which model '{graph.name}' does not"
            f" answer: {_name_outputs(graph)}; allowed: signal, or a function of your own.",
            subject="agreement",
        )
    if name == "labels":
        return RULES[name], _score_labels
    words, compare = RULES[name], _agrees if name == "agreement" else _kept_power
    if name == "signal" and len(graph.outputs) > 1:
        words += f", of {len(graph.outputs)} outputs the one that loses most"
    return words, _Agreement(WholeModel(graph).run, compare)


def _name_outputs(graph: Graph) -> str:
    """What a network answers that are no scores of classes."""
    if len(graph.outputs) > 1:
        return f"it has {len(graph.outputs)} outputs"
    spec = graph.tensors[graph.outputs[0]]
    return f"'{spec.name}' is {spec.dtype} of shape {spec.shape}"


def _score_labels(run: Run, data: Sequence[Sample]) -> list[float]:
    """1 where the class of the highest score is the label."""
    return [float(_first_choice(run(sample.feeds)) == sample.label) for sample in data]


class _Agreement:
    """Compares answers with those of the float network, which are found once."""

    def __init__(
        self, run: Run, compare: Callable[[dict[str, Array], dict[str, Array]], float]
    ) -> None:
        self._run, self._compare = run, compare
        self._expected: list[dict[str, Array]] = []

    def __call__(self, run: Run, data: Sequence[Sample]) -> list[float]:
        if not self._expected:
            self._expected = [self._run(sample.feeds) for sample in data]
        pairs = zip(self._expected, data, strict=True)
        return [self._compare(expected, run(sample.feeds)) for expected, sample in pairs]


def _agrees(expected: dict[str, Array], answer: dict[str, Array]) -> float:
    return float(_first_choice(expected) == _first_choice(answer))


def _first_choice(answer: dict[str, Array]) -> int:
    (scores,) = answer.values()
    return int(np.argmax(scores))


def _kept_power(expected: dict[str, Array], answer: dict[str, Array]) -> float:
    """1 less noise over signal, not below 0: 0.99 are 20 dB.

    Of several outputs that of the worst: of those together one of large numbers would say nothing
    of the others.
    """
    return min(_kept_part(array, answer[name]) for name, array in expected.items())


def _kept_part(expected: Array, answer: Array) -> float:
    values = np.asarray(expected, np.float64)
    signal, noise = float((values**2).sum()), float(((answer - values) ** 2).sum())
    return max(0.0, 1 - noise / signal) if signal else float(not noise)
