"""A network in fewer bits beside its float self: agreement, signal to noise, right answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Row, at_least, say, shown
from partita.engine.session import SessionConfig, open_session
from partita.graph import Graph
from partita.graph.quantised import with_kernels
from partita.graph.whole import WholeModel
from partita.quantisation import (
    CodeOptions,
    Ranges,
    Reference,
    choose_bits,
    collect_ranges,
    quantize,
)
from partita.quantisation.choose import USUAL
from partita.quantisation.robust import robust_widths
from partita.quantisation.samples import Feeds

Answers = npt.NDArray[np.float64]

#: Bits of weights and of activations.
SETTINGS = ((8, 8), (6, 6), (4, 8), (4, 4))
#: Signal to noise that weights or activations must leave to be quantised where some are left out: a
#: thousand times the noise's power.
ROBUST_DB = 30.0
#: Agreement of integer kernels with the same bits on floats, and with floats, that is wanted.
_LEAST_FAKE, _LEAST_FLOAT = 99.0, 90.0


@dataclass(frozen=True)
class Classifier:
    """A trained classifier and its data.

    Attributes:
        samples: What ranges are found on.
        judged: What agreement with the float network is judged by.
        labelled: Inputs whose classes are known, apart from the samples.
        labels: Their classes.
    """

    name: str
    graph: Graph
    samples: Sequence[Feeds]
    judged: Sequence[Feeds]
    labelled: Sequence[Feeds]
    labels: Sequence[int]


def answer_all(graph: Graph, inputs: Sequence[Feeds]) -> Answers:
    """The first output for each input, a row each."""
    model, output = WholeModel(graph), graph.outputs[0]
    return np.stack([model.run(feeds)[output].reshape(-1) for feeds in inputs]).astype(np.float64)


def agreement(one: Answers, other: Answers) -> float:
    """Percent of rows whose largest numbers are at the same place."""
    return 100 * float(np.mean(one.argmax(axis=1) == other.argmax(axis=1)))


def accuracy(answers: Answers, labels: npt.ArrayLike) -> float:
    """Percent of rows whose largest number is at the label."""
    return 100 * float(np.mean(answers.argmax(axis=1) == np.asarray(labels)))


def signal_to_noise_db(expected: Answers, answers: Answers) -> float:
    """The power of the expected numbers over that of the difference, all rows together."""
    noise = float(((answers - expected) ** 2).sum())
    return 10 * float(np.log10((expected**2).sum() / noise)) if noise else np.inf


def answer_in_order(graph: Graph, inputs: Sequence[Feeds]) -> Answers:
    """The same as :func:`answer_all`, but by an engine that changes nothing of the graph.

    Sums are in another order then: what differs is rounding alone.
    """
    session = open_session(graph.to_model().SerializeToString(), SessionConfig(optimise="none"))
    outputs = [graph.outputs[0]]
    return np.stack([session.run(outputs, feeds)[0].reshape(-1) for feeds in inputs]).astype(float)


def leave_fragile(
    graph: Graph, ranges: Ranges, samples: Sequence[Feeds], width: int
) -> tuple[Graph, int]:
    """The graph in so many bits but for what costs much, and of how many layers that is.

    What is left are weights, or activations, of layers that, rounded alone, leave less than
    ``ROBUST_DB`` of signal to noise at the outputs.
    """
    kept = robust_widths(Reference(graph, samples), ranges, (width, width), ROBUST_DB)
    small = quantize(graph, choose_bits(graph, ranges, *kept))
    left = [
        name
        for name, entry in choose_bits(graph, ranges, width, width).items()
        if (entry.weight and name not in kept[0]) or (entry.activation and name not in kept[1])
    ]
    return small, len(left)


def quantise(
    graph: Graph, ranges: Ranges, setting: tuple[int, int], options: CodeOptions = USUAL
) -> Graph:
    """The graph in so many bits of weights and activations."""
    return quantize(graph, choose_bits(graph, ranges, *setting, options))


def compare_widths(case: Classifier) -> Iterator[Row]:
    """The rows of a classifier: what each setting of bits keeps of its float answers."""
    name, graph = case.name, case.graph
    plain, known = answer_all(graph, case.judged), answer_all(graph, case.labelled)
    float_right = accuracy(known, case.labels)
    judged, right = f"of {len(case.judged)}", f"top-1 of {len(case.labels)} labelled"
    yield shown(f"{name}: {right}, float", "%", float_right)
    ranges = collect_ranges(graph, case.samples)
    for setting in SETTINGS:
        words = f"weights {setting[0]}, activations {setting[1]}"
        say(f"{name}: {words}")
        small = quantise(graph, ranges, setting)
        answers = answer_all(small, case.judged)
        same, noise = agreement(plain, answers), signal_to_noise_db(plain, answers)
        found = accuracy(answer_all(small, case.labelled), case.labels)
        yield shown(f"{name}: {words}, as float {judged}", "%", same)
        yield shown(f"{name}: {words}, signal to noise", "dB", noise)
        yield shown(f"{name}: {words}, {right}", "%", found, float_right)
        if setting == SETTINGS[0]:
            yield from compare_kernels(case, small, plain, answers)
            exact = quantise(graph, ranges, setting, CodeOptions(exact_sums=True))
            yield from compare_exact(case, exact, plain)


def compare_kernels(case: Classifier, small: Graph, plain: Answers, fake: Answers) -> Iterator[Row]:
    """The rows of integer kernels beside the same bits on floats, and beside floats.

    Their peers are the same bits on floats with sums in another order: values that lie between two
    steps fall to either side there, too.
    """
    answers = answer_all(with_kernels(small, integer=True), case.judged)
    again = answer_in_order(small, case.judged)
    for words, other in (("the same bits on floats", fake), ("floats", plain)):
        label = f"{case.name}: integer kernels as {words}, of {len(case.judged)}"
        yield shown(label, "%", agreement(other, answers), agreement(other, again))


def compare_exact(case: Classifier, small: Graph, plain: Answers) -> Iterator[Row]:
    """The rows of integer kernels where sums are exact, beside the same bits on floats."""
    fake = answer_all(small, case.judged)
    answers = answer_all(with_kernels(small, integer=True), case.judged)
    label = f"{case.name}: exact sums, integer kernels as"
    of = f"of {len(case.judged)}"
    yield at_least(
        f"{label} the same bits on floats, {of}", "%", agreement(fake, answers), _LEAST_FAKE
    )
    yield at_least(f"{label} floats, {of}", "%", agreement(plain, answers), _LEAST_FLOAT)
    noise = signal_to_noise_db(plain, answers)
    yield shown(f"{case.name}: exact sums, signal to noise", "dB", noise)
