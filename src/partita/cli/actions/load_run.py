"""Answering requests from a bundle; needs the core installation only."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partita.cli.flags import RequestFlags
from partita.cli.inputs import get_requests, input_files
from partita.cli.output import Reply, check_output, write_output
from partita.files import pack_arrays
from partita.loading import Mark, Variant, choose_variant, load_bundle, read_manifest
from partita.quantisation.samples import Feeds
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_seconds


@dataclass(frozen=True)
class Loading:
    """How a bundle is loaded; see :func:`partita.loading.load_bundle`."""

    variant: str | None
    threads: int | None
    loaders: int | None
    read_ahead: bool


@dataclass(frozen=True)
class Answered:
    """The requests that a bundle answered.

    Attributes:
        marks: What each child did until the first answer.
        first_s: From the call that loads the bundle to the first answer.
        later_s: Of each other answer.
    """

    variant: Variant
    answers: list[Feeds]
    marks: list[Mark]
    first_s: float
    later_s: list[float]


def run_bundle(
    bundle: Path, requests: RequestFlags, loading: Loading, output: Path | None
) -> Reply:
    """Load a bundle and answer requests.

    Args:
        output: File for the answers: an array per output, requests first; None writes none.

    Raises:
        BundleError: The bundle is missing, damaged, or for another engine or processor.
        InputError: A file cannot be used.
    """
    check_output(output, *input_files(requests.files or ()), inside=bundle)
    specs = choose_variant(read_manifest(bundle), bundle, loading.variant).program.inputs
    answered = answer_requests(bundle, get_requests(specs, requests), loading)
    if output is not None:
        answers = answered.answers
        stacked = {name: np.stack([each[name] for each in answers]) for name in answers[0]}
        write_output(output, pack_arrays(stacked))
    reply = describe_answers(answered)
    if output is not None:
        reply.shown.append(f"Written to {output}")
    return reply


def answer_requests(bundle: Path, feeds: Sequence[Feeds], loading: Loading) -> Answered:
    """The answers of a bundle that is loaded for the first of them."""
    began_s = time.perf_counter()
    with load_bundle(bundle, **asdict(loading)) as session:
        answers: list[list[Any]] = []
        times_s: list[float] = []
        marks: list[Mark] = []
        for feed in feeds:
            start_s = time.perf_counter() if answers else began_s
            answers.append(session.run(None, feed))
            times_s.append(time.perf_counter() - start_s)
            marks = marks or list(session.marks)
        session.wait()
        names = [spec.name for spec in session.get_outputs()]
        named = [dict(zip(names, answer, strict=True)) for answer in answers]
        return Answered(session.variant, named, marks, times_s[0], times_s[1:])


def describe_answers(answered: Answered) -> Reply:
    """What each child did until the first answer, and how long the later ones took."""
    steady_s = statistics.median(answered.later_s) if answered.later_s else None
    marks = {(mark.what, mark.child): mark for mark in answered.marks}
    rows, children = [], []
    for number, child in enumerate(answered.variant.children):
        described: dict[str, Any] = {"layers": len(child.layers), "weight_bytes": child.size_bytes}
        cells = [str(number), str(len(child.layers))]
        for what in ("load", "compute"):
            mark = marks[what, number]
            described[what] = {"start_s": mark.start_s, "end_s": mark.end_s}
            cells.append(f"{format_seconds(mark.start_s)} to {format_seconds(mark.end_s)}")
        rows.append(tuple(cells))
        children.append(described)
    payload = {
        "variant": answered.variant.name,
        "first_s": answered.first_s,
        "steady_s": steady_s,
        "requests": len(answered.answers),
        "children": children,
    }
    columns = ("child", "layers", "loads", "computes")
    table = draw_table(TableData("Until the first answer", columns, tuple(rows)))
    reply = Reply(payload, [table])
    reply.shown.append(f"First answer:  {format_seconds(answered.first_s)} after the call")
    if steady_s is not None:
        reply.shown.append(f"Later answers: {format_seconds(steady_s)} (median)")
    return reply
