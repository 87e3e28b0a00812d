"""Figure 6: all methods on all models, and section 5.3's sentences about it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from partita.reproduce.autosplit.comparison import Closer, Compared, compare, look_closer
from partita.reproduce.autosplit.methods import Answer, is_clear
from partita.reproduce.autosplit.setting import (
    COMPARED,
    LEAST_DB,
    MODELS,
    PAPER,
    Setting,
    pick_models,
)
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: By how much AUTO-SPLIT is faster in the mean (section 5.3).
_MEANS = {"U8": 0.25, "QDMP": 0.40, "Neurosurgeon": 0.47, "CLOUD16": 0.70}
#: From how much to how much, over models; under all in the cloud where it is not the answer.
RANGES = {"QDMP": (0.20, 0.80), "Neurosurgeon": (0.24, 0.92), "CLOUD16": (0.32, 0.92)}
#: By how much DADS and QDMP are faster than Neurosurgeon.
_CUTS = 0.35
#: What rounding of percents explains.
_ROUNDING = 0.005

#: Letters of a model's name that fit in one line below the bars.
_WIDE = 10

Found = Mapping[str, tuple[Compared, Closer]]

#: As short as fits beside names: a narrower column breaks words.
DESCRIBED = ("answer", "after", "edge, ms", "sending, ms", "cloud, ms", "bits sent", "edge, MB",
             "outputs, dB", "differing, dB")  # fmt: skip
#: What a reader must know of these columns.
DESCRIPTION = (
    "after: the paper's number of the last layer on the edge; differing: what differs from picture"
    " to picture of the outputs"
)

NOTES = (
    "the bars of Figure 6 are not in the paper's text: its sentences are compared",
    "weights are drawn from seed 0, so there is no accuracy: AUTO-SPLIT is the soonest split whose"
    f" outputs have a signal-to-noise ratio of {LEAST_DB:g} dB; AUTO-SPLIT (strict) asks that of"
    " what differs from picture to picture, which is a thousandth of the outputs' power where"
    " weights are drawn",
    "seconds and bytes count as in equation 1, but all tensors that cross a cut are sent",
    DESCRIPTION,
)


@figure(PAPER, 6, "All methods on all models")
def make_overall(bench: Bench) -> Drawn:
    """At 3 Mbit/s, edge memory unlimited, 16-bit multiplications at the cost of 8-bit ones."""
    names = pick_models(bench.study.models, tuple(MODELS))
    return draw_overall(
        {name: (compare(bench, name, Setting()), look_closer(bench, name)) for name in names}
    )


def draw_overall(found: Found) -> Drawn:
    """The figure from all methods' answers."""
    tables = (_latencies(found), _answers(found), _cuts(found))
    claims = (*_claim_kinds(found), *_claim_never_slower(found))
    compared = {name: one for name, one in found.items() if name in COMPARED}
    if compared:
        claims += (*_claim_means(compared), *_claim_ranges(compared), *_claim_cuts(compared))
    return Drawn(tables, claims, (_chart(found),), NOTES)


def reduction(one: Answer, other: Answer) -> float:
    """The part of another answer's seconds that one does without."""
    return 1 - one.latency_s / other.latency_s


def _methods(one: Compared, closer: Closer) -> dict[str, Answer]:
    return {**one.rivals, "AUTO-SPLIT": one.auto, "AUTO-SPLIT (strict)": closer.strict}


_NAMES = ("CLOUD16", "Neurosurgeon", "QDMP", "U8", "AUTO-SPLIT", "AUTO-SPLIT (strict)")


def _latencies(found: Found) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, (one, closer) in found.items():
        answers = _methods(one, closer)
        shares = (
            100 * (1 - reduction(answers[each], one.cloud)) if each in answers else None
            for each in _NAMES
        )
        rows.append((name, 1e3 * one.cloud.latency_s, *shares))
    columns = ("model", "CLOUD16, ms", *(f"{each}, %" for each in _NAMES))
    return Table("Figure 6: latency, and in percent of all in the cloud", columns, tuple(rows))


def _answers(found: Found) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, (one, closer) in found.items():
        for method, answer in (("AUTO-SPLIT", one.auto), ("strict", closer.strict)):
            rows.append((name, method, *describe(answer)))
    return Table(
        "Figure 6: what AUTO-SPLIT answers",
        ("model", "method", *DESCRIBED),
        tuple(rows),
        text_columns=3,
    )


def describe(answer: Answer) -> tuple[Cell, ...]:
    """The cells of one answer."""
    return (
        answer.kind,
        answer.index if answer.index >= 0 else None,
        1e3 * answer.edge_s,
        1e3 * answer.send_s,
        1e3 * answer.cloud_s,
        answer.sent_bits or None,
        1e-6 * answer.edge_bytes,
        answer.signal_db,
        answer.varying_db,
    )


def _cuts(found: Found) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            1e3 * one.neurosurgeon.latency_s,
            1e3 * one.qdmp.latency_s,
            one.qdmp.kind,
            1e3 * closer.neurosurgeon_s,
            1e3 * closer.dads_s,
        )
        for name, (one, closer) in found.items()
    ]
    return Table(
        "Figure 6: cuts where nothing is rounded, ms; as written: a layer per node",
        ("model", "Neurosurgeon", "QDMP", "its answer", "Neurosurgeon, as written",
         "DADS, as written"),
        tuple(rows),
    )  # fmt: skip


def _claim_kinds(found: Found) -> list[Claim]:
    words = {"cloud": "CLOUD-ONLY", "edge": "EDGE-ONLY", "split": "SPLIT"}
    return [
        Claim(
            name,
            f"AUTO-SPLIT's answer is {words[MODELS[name].kind]}",
            f"{words[one.auto.kind]} ({words[closer.strict.kind]} if strict)",
            one.auto.kind == MODELS[name].kind,
        )
        for name, (one, closer) in found.items()
    ]


def _claim_never_slower(found: Found) -> list[Claim]:
    worst = max(
        excess(one, answer)
        for one, closer in found.values()
        for answer in (one.auto, closer.strict)
    )
    return [never_slower(worst, f"{len(found)} models")]


def excess(one: Compared, answer: Answer) -> float:
    """An answer's seconds over those of the sooner of all in the cloud and all on the edge.

    On the edge that is the network as it is, and in each width that is accurate enough.
    """
    edge = [one.neurosurgeon] if one.neurosurgeon.kind == "edge" else []
    if answer == one.auto:
        edge += [each for each in one.uniform.values() if is_clear(each)]
    return answer.latency_s / min(other.latency_s for other in (one.cloud, *edge))


def never_slower(worst: float, among: str) -> Claim:
    """Remark 5, by the largest excess."""
    return Claim(
        "AUTO-SPLIT",
        "never slower than CLOUD-ONLY, and than EDGE-ONLY where it is possible (remark 5)",
        f"at most {worst:.3f} of the sooner one among {among}",
        worst <= 1 + 1e-9,
    )


def _claim_means(found: Found) -> list[Claim]:
    claims = []
    for rival, paper in _MEANS.items():
        pairs = [
            (
                reduction(one.auto, one.rivals[rival]),
                reduction(closer.strict, one.rivals[rival]),
            )
            for one, closer in found.values()
            if rival in one.rivals
        ]
        ours, strict = (mean(shares) for shares in zip(*pairs, strict=True))
        claims.append(
            Claim(
                "AUTO-SPLIT",
                f"faster than {rival} by {paper:.0%} in the mean",
                f"{ours:.0%} ({strict:.0%} if strict)",
                ours >= paper - _ROUNDING,
            )
        )
    return claims


def _claim_ranges(found: Found) -> list[Claim]:
    """Section 5.3's least and most reductions."""
    claims = []
    for rival, (least, most) in RANGES.items():
        shares = [
            reduction(one.auto, one.rivals[rival])
            for one, _ in found.values()
            if rival != "CLOUD16" or one.auto.kind != "cloud"
        ]
        if not shares:
            continue
        words = f"reduces latency by {least:.0%} to {most:.0%} compared to {rival}"
        ours = f"{min(shares):.0%} to {max(shares):.0%}"
        claims.append(Claim("AUTO-SPLIT", words, ours, min(shares) >= least - _ROUNDING))
    return claims


def _claim_cuts(found: Found) -> list[Claim]:
    pairs = {
        "QDMP against Neurosurgeon": [
            (one.qdmp.latency_s, one.neurosurgeon.latency_s) for one, _ in found.values()
        ],
        "DADS against Neurosurgeon, both as written": [
            (closer.dads_s, closer.neurosurgeon_s) for _, closer in found.values()
        ],
        "QDMP against Neurosurgeon as written": [
            (one.qdmp.latency_s, closer.neurosurgeon_s) for one, closer in found.values()
        ],
    }
    claims = []
    for subject, seconds in pairs.items():
        ours = mean(1 - fast / slow for fast, slow in seconds)
        claims.append(
            Claim(
                subject,
                f"DADS/QDMP are faster than Neurosurgeon by {_CUTS:.0%}",
                f"{ours:.0%} in the mean",
                ours >= _CUTS - _ROUNDING,
            )
        )
    return claims


def _chart(found: Found) -> Chart:
    series: dict[str, tuple[float | None, ...]] = {
        each: tuple(
            answers[each].latency_s / one.cloud.latency_s if each in answers else None
            for one, closer in found.values()
            for answers in [_methods(one, closer)]
        )
        for each in _NAMES
    }
    return Chart(
        "Figure 6: latency over that of all in the cloud, 3 Mbit/s",
        "bars",
        tuple(name.replace("_", "\n", 1) if len(name) > _WIDE else name for name in found),
        series,
        "model",
        "latency / CLOUD16",
    )
