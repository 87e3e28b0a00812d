"""Exactness: a plan's answers beside the whole model's, at every stage boundary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from partita.compile import Compiled, WholeModel
from partita.engine.session import SessionConfig, open_session
from partita.errors import ModelError
from partita.exactness.interpret import Arrays, run_program
from partita.exactness.scale import Scales, max_magnitude
from partita.exactness.steps import Steps, rounding_errors
from partita.graph import Graph
from partita.graph.model_file import read_apart
from partita.graph.read import bare_line
from partita.plan import Plan
from partita.program import Program
from partita.regions import Array, Region, read_format

#: Largest difference that rounding in another order explains, relative to the largest magnitude: of
#: the networks in docs/exactness.md none of single precision is beyond 6.2e-6.
TOLERANCE = 1e-5
#: Two steps of half precision; docs/exactness.md has 1.8e-3 for SqueezeNet, and 2.7e-3 for a
#: MobileNet of which every layer is a stage.
TOLERANCE_FLOAT16 = 2e-3
#: How many times as far a model may be from its file, which the engine rewrites in its own way. A
#: round number, not tuned.
_REWRITTEN = 10
#: Where the engine looks for the weights of a model that it gets as bytes.
_FOLDER = "model_external_initializers_file_folder_path"
_ROUNDING = frozenset(
    (
        "QuantizeLinear",
        "DynamicQuantizeLinear",
        "Round",
        "Floor",
        "Ceil",
        "Cast",
        "ArgMax",
        "ArgMin",
    )
)

Advance = Callable[[int, int, str], None]
#: A program compiled so that its fragments answer some more tensors.
Probe = Callable[[frozenset[str]], Compiled]


@dataclass(frozen=True)
class Difference:
    """How far one tensor of a divided run is from the whole model's.

    Attributes:
        max_difference: Largest absolute difference of any element of any piece.
        max_magnitude: Largest absolute value in the whole model's tensor.
        scale: What the difference is a share of, where that is not the magnitude: see ``Weigher``.
        non_finite: How many elements of the whole model's tensor are NaN or infinite. Where the
            divided run has the same there, the others decide; else the difference is infinite.
    """

    tensor: str
    max_difference: float
    max_magnitude: float
    scale: float | None = None
    non_finite: int = 0

    @property
    def relative(self) -> float:
        """Difference as a share of the largest magnitude, or of the scale."""
        if self.max_difference == 0.0:
            return 0.0
        whole = self.max_magnitude if self.scale is None else self.scale
        return self.max_difference / whole if whole else float("inf")

    @property
    def is_measured(self) -> bool:
        """Whether it is a number at all: shapes are the same, and so is what is not finite."""
        return math.isfinite(self.max_difference)

    def is_within(self, tolerance: float) -> bool:
        """Whether rounding explains it; nothing explains what is no number."""
        return self.is_measured and self.relative <= tolerance


class Weigher:
    """Weighs differences beyond the tolerance by what rounding can mean where they are.

    One rule for all comparisons: see :mod:`partita.exactness.scale`. What is within the tolerance
    of its own magnitude is left as it is. Where a tensor is small behind a saturating function, the
    function's argument is compared, too. Behind what is rounded a step of rounding is allowed, or
    what rounding itself changes there: see :mod:`partita.exactness.steps`.

    Args:
        probes: Compile the plans that may have answered, with more tensors as outputs of their
            fragments; without one no argument can be compared.
    """

    def __init__(self, graph: Graph, probes: Sequence[Probe] = ()) -> None:
        self._graph = graph
        self._probes = [lru_cache(1)(probe) for probe in probes]
        self._tolerance = tolerance_of(graph)
        self._scales = Scales(graph, self._tolerance)
        self._steps = Steps(graph)
        self._wholes: dict[frozenset[str], WholeModel] = {}

    def weigh(self, differences: Sequence[Difference], inputs: Arrays) -> list[Difference]:
        """The differences of one request, those in doubt with a scale, then those of arguments."""
        weighed = self._weigh(differences, inputs)
        weighed = [self._allow(each, self._step(each)) for each in weighed]
        rounded = [each for each in weighed if self._step(each) and self._is_doubtful(each)]
        errors = rounding_errors(self._graph, (each.tensor for each in rounded), inputs)
        return [
            self._allow(each, self._step(each) + errors[each.tensor])
            if each.tensor in errors
            else each
            for each in weighed
        ]

    def _weigh(self, differences: Sequence[Difference], inputs: Arrays) -> list[Difference]:
        weighed = self._scale(differences, inputs)
        arguments = frozenset(
            self._scales.arguments(
                each.tensor
                for each in weighed
                if each.scale is not None and each.scale > each.max_magnitude
            )
        )
        if not arguments:
            return weighed
        expected = self._run_whole(arguments, inputs) if self._probes else {}
        for probe in self._probes:
            _, pieces = run_program(probe(arguments), inputs)
            before = compare_pieces([piece for piece in pieces if piece[0] in arguments], expected)
            weighed += self._scale(before, inputs)
        return weighed

    def _step(self, each: Difference) -> float:
        return self._steps.of(each.tensor, each.max_magnitude)

    def _is_doubtful(self, each: Difference) -> bool:
        return each.is_measured and not each.is_within(self._tolerance)

    def _allow(self, each: Difference, most: float) -> Difference:
        """A doubtful difference as a share of what makes ``most`` the tolerance."""
        whole = each.max_magnitude if each.scale is None else each.scale
        if not most or not self._is_doubtful(each) or most <= whole * self._tolerance:
            return each
        return replace(each, scale=most / self._tolerance)

    def _scale(self, differences: Sequence[Difference], inputs: Arrays) -> list[Difference]:
        doubtful = {each.tensor for each in differences if self._is_doubtful(each)}
        sources = frozenset(self._scales.sources(doubtful))
        if sources == doubtful:  # nothing before them says more
            return list(differences)
        values = self._run_whole(sources, inputs)
        return [
            replace(each, scale=self._scales.of(each.tensor, values))
            if each.tensor in doubtful
            else each
            for each in differences
        ]

    def _run_whole(self, tensors: frozenset[str], inputs: Arrays) -> Arrays:
        """Tensors of the whole model, and its inputs and outputs."""
        if tensors not in self._wholes:
            self._wholes[tensors] = WholeModel(self._graph, tensors)
        values = {**inputs, **self._wholes[tensors].run(inputs)}
        self._wholes[tensors].release()
        return values


def compare_pieces(pieces: list[tuple[str, Region, Array]], whole: Arrays) -> list[Difference]:
    """Return, per tensor that ``whole`` holds, the difference over all pieces."""
    worst: dict[str, float] = {}
    for tensor, box, array in pieces:
        if tensor not in whole:
            continue
        expected = whole[tensor][box.slices()]
        worst[tensor] = max(worst.get(tensor, 0.0), max_difference(array, expected))
    return [_of(tensor, value, whole[tensor]) for tensor, value in worst.items()]


def max_difference(left: Array, right: Array) -> float:
    """The largest absolute difference; equal infinities and NaNs count as equal."""
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


def tolerance_of(graph: Graph) -> float:
    """The relative difference that a divided run of ``graph`` may have."""
    halves = any(spec.dtype == "float16" for spec in graph.tensors.values())
    return TOLERANCE_FLOAT16 if halves else TOLERANCE


def is_lossy(program: Program) -> bool:
    """Whether a transfer of the program rounds what it carries."""
    return any(not read_format(stream.wire).is_exact for stream in program.streams)


def is_lossy_plan(plan: Plan) -> bool:
    """Whether the plan names a wire format that rounds."""
    return any(not read_format(wire).is_exact for wire in plan.wires.values())


def check_exactness(
    graph: Graph,
    compiled: Compiled,
    feeds: Sequence[Arrays],
    advance: Advance | None = None,
    probe: Probe | None = None,
) -> list[Difference]:
    """How far every tensor at a stage boundary, and every output, is from the whole model's.

    Args:
        advance: Told how many are done.
        probe: Compiles the program again, with other tensors as outputs of its fragments. Where it
            is given, differences are weighed: see ``Weigher``.
    """
    tensors = {
        buffer.tensor for device in compiled.program.devices for buffer in device.buffers
    } & set(graph.tensors)
    whole, weigher = WholeModel(graph, tensors), Weigher(graph, [probe] if probe else [])
    differences: list[Difference] = []
    for done, inputs in enumerate(feeds):
        if advance is not None:
            advance(done, len(feeds), "input")
        expected = whole.run(inputs)
        whole.release()
        outputs, pieces = run_program(compiled, inputs)
        fresh = compare_pieces(pieces, expected)
        fresh += [difference_of(name, outputs[name], expected[name]) for name in graph.outputs]
        differences += fresh if probe is None else weigher.weigh(fresh, inputs)
    return differences


def difference_of(tensor: str, got: Array, expected: Array) -> Difference:
    """How far one tensor is from what it should be; another shape is infinitely far."""
    if got.shape != expected.shape:
        return _of(tensor, float("inf"), expected)
    return _of(tensor, max_difference(got, expected), expected)


def _of(tensor: str, difference: float, expected: Array) -> Difference:
    count = int(np.count_nonzero(~np.isfinite(np.asarray(expected, np.float64))))
    return Difference(tensor, difference, max_magnitude(expected), non_finite=count)


def compare_answers(
    graph: Graph,
    feeds: Sequence[Arrays],
    answers: Sequence[Arrays],
    probes: Sequence[Probe] = (),
) -> Difference:
    """The largest difference of any output of any answer from the whole model's.

    Its ``non_finite`` counts those of all outputs and answers.

    Args:
        probes: Of the plans that may have answered: see ``Weigher``.
    """
    whole, weigher = WholeModel(graph), Weigher(graph, probes)
    differences: list[Difference] = []
    for inputs, answer in zip(feeds, answers, strict=True):
        expected = whole.run(inputs)
        fresh = [difference_of(name, answer[name], expected[name]) for name in graph.outputs]
        differences += weigher.weigh(fresh, inputs)
    worst = max(differences, key=lambda difference: difference.relative)
    outputs = [each for each in differences if each.tensor in graph.outputs]
    return replace(worst, non_finite=sum(each.non_finite for each in outputs))


def compare_with_file(graph: Graph, path: Path, feeds: Sequence[Arrays]) -> Difference:
    """The largest difference of any output of the graph from what its file itself answers.

    Folding and rewriting change the order of rounding, and the engine's own optimisations of the
    file do. Of a quantised graph the one counts that it was made of.

    Raises:
        ModelError: The engine cannot run the file.
    """
    graph = graph.base or graph
    session = _open_file(path)
    names = list(graph.outputs)
    answers = [session.run(names, dict(inputs)) for inputs in feeds]
    del session  # before another one holds the weights
    named = [dict(zip(names, map(np.asarray, arrays), strict=True)) for arrays in answers]
    return compare_answers(graph, feeds, named)


def _open_file(path: Path) -> Any:
    """A session of a model file as it is, but for names of nodes where the engine refuses these."""
    config = SessionConfig(integer_kernels=True)
    try:
        return open_session(path, config)
    except Exception as error:  # ONNX Runtime's errors share no narrower class.
        apart, why = read_apart(path), error
    try:
        if apart is not None:
            return open_session(apart, replace(config, entries={_FOLDER: str(path.parent)}))
    except Exception as error:
        why = error
    raise ModelError(
        f"Model file '{path}' cannot be run as it is, so that nothing can be compared with it:"
        f" {bare_line(why)}.",
        subject=str(path),
    ) from None


def tolerance_of_file(graph: Graph) -> float:
    """How far the graph's answers may be from its file's; infinite where values are rounded.

    A quantised value that lies between two steps may fall to either side.
    """
    graph = graph.base or graph
    rounds = any(node.op in _ROUNDING for node in graph.nodes)
    return math.inf if rounds else _REWRITTEN * tolerance_of(graph)
