"""Table 2 and figure 4: what networks that were trained here are worth."""

from __future__ import annotations

from statistics import mean

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.separable.intervals import difference
from partita.reproduce.separable.results import COMMAND, Curve, TrainingResults, read_results
from partita.reproduce.separable.setting import ACCURACIES, PAPER, STALENESS

#: Parts of the study: as large a network as may be, and one that needs to talk.
EQUAL, TALKING = "equal", "talking"
#: Of figure 4, in its order.
CASES = ("controller", "random", "random, trained weights")
_NOT_RUN = f"Not run here: nothing is trained by this command. '{COMMAND}' trains, for hours."


def describe_scale(results: TrainingResults) -> str:
    """At which scale there are results, in a sentence."""
    if not results.runs:
        return _NOT_RUN
    parts = "; ".join(f"'{part}' is {words}" for part, words in results.scales.items())
    return f"Trained here, not at the paper's scale: {parts}."


def mean_accuracy(results: TrainingResults, kind: str, part: str = TALKING) -> float | None:
    """Percent, over all seeds; None where nothing was trained."""
    runs = results.find(part, kind)
    return 100 * mean(run.accuracy for run in runs.values()) if runs else None


@figure(PAPER, 2, "Accuracy of plain and separable networks", kind="table")
def make_accuracies(bench: Bench) -> Drawn:
    """The paper's accuracies, and those of the networks that were trained here."""
    results = read_results(bench)
    rows: list[tuple[Cell, ...]] = []
    for name, (plain, separable) in ACCURACIES.items():
        rows += [(name, "plain", *plain), (f"{name} in 4 groups", "separable", *separable)]
    paper = Table(
        f"Table 2 as printed: % right, alpha = {STALENESS}",
        ("network", "form", "CIFAR-10", "CIFAR-100"),
        tuple(rows),
        text_columns=2,
        digits=4,
    )
    ours = _tabulate(results)
    gap = ACCURACIES["4x16d-56"]
    said = gap[0][1] - gap[1][1]
    found = difference(results, EQUAL, "separable", "plain")
    claims = () if found is None else (
        Claim(
            "the separable network, as large and trained as long",
            f"{said:.2f} points less than the plain one on CIFAR-100",
            f"{found.words}, of {results.scales.get(EQUAL, '')}",
            found.low > -0.5,
            "measurement",
        ),
    )  # fmt: skip
    return Drawn((paper, *ours), claims, (), (describe_scale(results),))


def _tabulate(results: TrainingResults) -> tuple[Table, ...]:
    """A table for each part of the study that has results."""
    tables = []
    for part in dict.fromkeys(run.part for run in results.runs):
        kinds = dict.fromkeys(run.kind for run in results.runs if run.part == part)
        rows: list[tuple[Cell, ...]] = []
        for kind in kinds:
            runs = list(results.find(part, kind).values())
            rows.append(
                (
                    kind,
                    len(runs),
                    100 * mean(run.accuracy for run in runs),
                    100 * min(run.accuracy for run in runs),
                    100 * max(run.accuracy for run in runs),
                    100 * mean(run.share for run in runs),
                    100 * mean(run.byte_share for run in runs),
                )
            )
        tables.append(
            Table(
                f"Ours, '{part}': {results.scales.get(part, '')}",
                ("network", "seeds", "% right", "least", "most", "% of the ring", "in bytes"),
                tuple(rows),
                digits=4,
            )
        )
    return tuple(tables)


@figure(PAPER, 4, "The controller against chance")
def make_curves(bench: Bench) -> Drawn:
    """Loss and mean accuracy of sampled policies, round by round."""
    results = read_results(bench)
    curves = [_mean_curve(results, case) for case in CASES]
    known = [curve for curve in curves if curve is not None]
    note = "The figure's curves are not in the text; what it says of them is compared."
    if not known:
        return Drawn((), (), (), (note, _NOT_RUN))
    rounds = tuple(float(number + 1) for number in range(max(len(c.losses) for c in known)))
    charts = tuple(
        Chart(
            f"Figure 4: {title}, mean over seeds",
            "lines",
            rounds,
            {curve.case: _padded(_values(curve, title), len(rounds)) for curve in known},
            "round",
            title,
        )
        for title in ("training loss", "% right of sampled policies")
    )
    rows = tuple(
        (curve.case, len([c for c in results.curves if c.case == curve.case]),
         curve.losses[-1], 100 * curve.accuracies[-1])
        for curve in known
    )  # fmt: skip
    columns = ("case", "seeds", "loss", "% right")
    table = Table("Figure 4 after the last round", columns, rows, digits=4)
    claims = _claim_curves(results)
    return Drawn((table,), claims, charts, (note, describe_scale(results)))


def _values(curve: Curve, title: str) -> list[float]:
    if title == "training loss":
        return curve.losses
    return [100 * share for share in curve.accuracies]


def _padded(values: list[float], length: int) -> tuple[float | None, ...]:
    return (*values, *(None,) * (length - len(values)))


def _mean_curve(results: TrainingResults, case: str) -> Curve | None:
    curves = [curve for curve in results.curves if curve.case == case]
    if not curves:
        return None
    losses = [mean(each) for each in zip(*(curve.losses for curve in curves), strict=False)]
    rates = [mean(each) for each in zip(*(curve.accuracies for curve in curves), strict=False)]
    return Curve(case, 0, losses, rates)


def _claim_curves(results: TrainingResults) -> tuple[Claim, ...]:
    words = "the case with the controller outperforms cases without a controller"
    ends = {
        case: {c.seed: c.accuracies[-1] for c in results.curves if c.case == case} for case in CASES
    }
    claims = []
    for case in CASES[1:]:
        seeds = sorted(ends[CASES[0]].keys() & ends[case].keys())
        if seeds:
            gains = [ends[CASES[0]][seed] - ends[case][seed] for seed in seeds]
            ours = f"{100 * mean(gains):+.2f} points over '{case}', {len(seeds)} seeds"
            claims.append(Claim("the controller", words, ours, mean(gains) > 0, "measurement"))
    return tuple(claims)
