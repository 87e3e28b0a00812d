"""Figure 5: latency against what rounding leaves of the outputs, for two networks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from partita.reproduce.autosplit.comparison import Compared, compare, find_subject, keep
from partita.reproduce.autosplit.methods import Answer, Case
from partita.reproduce.autosplit.overall import DESCRIBED, DESCRIPTION, describe
from partita.reproduce.autosplit.setting import PAPER, WIDTHS, Setting, pick_models
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: Section 5.2: latency over all in the cloud by the most drop of accuracy, percent.
_PAPER = {
    "resnet50": {0: 1.0, 1: 0.57, 5: 0.43, 10: 0.43},
    "yolov3": {0: 1.0, 10: 0.37, 20: 0.32, 50: 0.24},
}
#: Signal-to-noise ratios that stand for the paper's thresholds, decibels.
_LEVELS = (40.0, 30.0, 20.0, 10.0)
#: Section 5.2: QDMP's and Neurosurgeon's one split of YOLOv3.
_YOLO_FLOAT = 0.75


class Judged(msgspec.Struct, frozen=True):
    """AUTO-SPLIT's splits, the soonest first."""

    answers: list[Answer]


Found = Mapping[str, tuple[Compared, Judged]]


@figure(PAPER, 5, "Accuracy against latency")
def make_trade_off(bench: Bench) -> Drawn:
    """ResNet-50 and YOLOv3 at 3 Mbit/s."""
    names = pick_models(bench.study.models, tuple(_PAPER))
    return draw_trade_off({name: (compare(bench, name, Setting()), _judge_all(bench, name))
                           for name in names})  # fmt: skip


def _judge_all(bench: Bench, name: str) -> Judged:
    def find() -> Judged:
        case = Case(find_subject(bench, name), Setting())
        # Splits that differ where nothing is to be rounded have the same answer.
        return Judged(list(dict.fromkeys(case.judged(split) for split in case.candidates)))

    return keep(bench, "trade-off", (name, Setting()), Judged, find)


def draw_trade_off(found: Found) -> Drawn:
    """Figure 5 from judged splits."""
    tables, claims, charts = [], list[Claim](), []
    for name, (one, judged) in found.items():
        rows: list[tuple[Cell, ...]] = [
            (method, *_cells(answer, one)) for method, answer in _rows(one, judged)
        ]
        columns = ("method", DESCRIBED[0], "latency, %", *DESCRIBED[1:])
        tables.append(Table(f"Figure 5: {name}", columns, tuple(rows), text_columns=2))
        charts.append(_chart(name, one, judged))
        claims += _claims(name, one, judged)
    return Drawn(tuple(tables), tuple(claims), tuple(charts), _NOTES)


_NOTES = (
    "weights are drawn: in place of a threshold of accuracy stands one of the outputs'"
    " signal-to-noise ratio",
    "the figure's points are not in the text: its sentences are compared",
    DESCRIPTION,
)


def _cells(answer: Answer, one: Compared) -> tuple[Cell, ...]:
    kind, *rest = describe(answer)
    return (kind, 100 * answer.latency_s / one.cloud.latency_s, *rest)


def _rows(one: Compared, judged: Judged) -> list[tuple[str, Answer]]:
    uniform = [(f"U{width}", one.uniform[width]) for width in WIDTHS if width in one.uniform]
    return [
        ("CLOUD16", one.cloud),
        ("Neurosurgeon", one.neurosurgeon),
        ("QDMP", one.qdmp),
        *uniform,
        *(("AUTO-SPLIT", answer) for answer in judged.answers),
    ]


def _soonest(one: Compared, judged: Judged, least_db: float) -> Answer:
    """The soonest answer whose outputs are so clear."""
    clear = (
        answer
        for answer in judged.answers
        if answer.signal_db is None or answer.signal_db >= least_db
    )
    return min((*clear, one.cloud, one.neurosurgeon), key=lambda answer: answer.latency_s)


def _claims(name: str, one: Compared, judged: Judged) -> list[Claim]:
    cloud_s = one.cloud.latency_s
    levels = [_soonest(one, judged, least).latency_s / cloud_s for least in _LEVELS]
    paper = _PAPER[name]
    claims = [
        Claim(
            name,
            "latency falls as more drop is allowed: "
            + ", ".join(f"{share:.0%} at {drop}%" for drop, share in paper.items()),
            ", ".join(
                f"{share:.0%} at {least:g} dB" for share, least in zip(levels, _LEVELS, strict=True)
            ),
            levels[-1] < levels[0] and all(one >= other for one, other in pairwise(levels)),
        )
    ]
    if name == "yolov3":
        share = one.qdmp.latency_s / cloud_s
        same = one.qdmp.index == one.neurosurgeon.index
        claims.append(
            Claim(
                name,
                f"QDMP and Neurosurgeon have one split, of {_YOLO_FLOAT:.0%}",
                f"{'one' if same else 'two'}, of {share:.0%}"
                f" and {one.neurosurgeon.latency_s / cloud_s:.0%}",
                same and share <= _YOLO_FLOAT + 0.005,
            )
        )
    return claims


def _chart(name: str, one: Compared, judged: Judged) -> Chart:
    """Latency over decibels; what changes nothing has none, and is a line."""
    points = [("AUTO-SPLIT", answer) for answer in _frontier(judged.answers)]
    points += [(method, a) for method, a in _rows(one, judged) if method != "AUTO-SPLIT"]
    places = tuple(sorted({a.signal_db for _, a in points if a.signal_db is not None}))
    series: dict[str, tuple[float | None, ...]] = {}
    for method, answer in points:
        share = answer.latency_s / one.cloud.latency_s
        line = list(series.get(method, (None,) * len(places)))
        for number, place in enumerate(places):
            if answer.signal_db in (None, place):
                line[number] = share
        series[method] = tuple(line)
    return Chart(
        f"Figure 5: {name}, 3 Mbit/s",
        "lines",
        places,
        series,
        "signal-to-noise ratio of the outputs, dB",
        "latency / CLOUD16",
    )


def _frontier(answers: list[Answer]) -> list[Answer]:
    """Rounded answers, each clearer than all that are sooner."""
    kept: list[Answer] = []
    for answer in sorted(answers, key=lambda one: one.latency_s):
        if answer.signal_db is not None and all(
            answer.signal_db > (other.signal_db or 0.0) for other in kept
        ):
            kept.append(answer)
    return kept
