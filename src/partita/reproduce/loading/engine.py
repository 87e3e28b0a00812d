"""Table 1: an engine that runs graph files, the model whole and as four children."""

from __future__ import annotations

from collections.abc import Mapping

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Drawn, Table, figure
from partita.reproduce.loading.bench.trials import LoadTrial
from partita.reproduce.loading.published import PAPER, TABLE_1, TITLES, chosen_models
from partita.reproduce.loading.setting import (
    Gains,
    Medians,
    claim_gain,
    draw_nothing,
    name_impossible,
    open_load_bench,
    state,
    time_chart,
    time_table,
)

VARIANTS = {
    "plain": "one file",
    "children": "four children, at the same time",
    "children_in_turn": "four children, in turn",
    "optimised": "optimised, mapped",
    "bundle": "bundle",
}
_HEADS = (
    *("model", "paper: whole, ms", "paper: children, ms", "paper: gain"),
    *("whole, ms", "children, ms", "gain", "in loading", "same time/in turn", "bound"),
)


@figure(PAPER, 1, "An engine with graph files", kind="table")
def make_engine(bench: Bench) -> Drawn:
    """Whole models against four children of about equal load times."""
    models = chosen_models(bench.study.models, list(TABLE_1))
    if not models:
        return draw_nothing(1, TABLE_1)
    medians = {}
    for model in models:
        with open_load_bench(bench, model) as load_bench:
            load_bench.starts = load_bench.balance(TABLE_1[model].count)
            medians[model] = load_bench.measure(tuple(VARIANTS))
    return draw_engine(medians, state(bench))


def draw_engine(medians: Medians, here: str) -> Drawn:
    """The table of what was measured, and in which state."""
    table = Table(
        f"Table 1: one file against four children, until the first answer ({here})",
        _HEADS,
        tuple(_row(model, trials) for model, trials in medians.items()),
    )
    title = f"Table 1: from the call to the first answer ({here})"
    claims = tuple(
        claim_gain(model, TABLE_1[model], _gains(trials)) for model, trials in medians.items()
    )
    most = {model: float(TABLE_1[model].count) for model in medians}
    notes = (
        *name_impossible({model: TABLE_1[model] for model in medians}, most),
        "The paper's engine is Arm-NN on a telephone, ours ONNX Runtime. The paper's positions are"
        " nodes of TensorFlow graphs that are not public: here four children are cut where their"
        " load times are most alike, which is the paper's aim. Bound: all children's load times,"
        " each alone, over the longest. The paper's own is not known, but at most 4.",
    )
    tables = (
        table,
        time_table(f"{title}, ms", medians, VARIANTS, "answered_s"),
        time_table("Table 1: from the call until all is loaded, ms", medians, VARIANTS, "loaded_s"),
    )
    return Drawn(tables, claims, (time_chart(title, medians, VARIANTS),), notes)


def _row(model: str, trials: Mapping[str, LoadTrial]) -> tuple[Cell, ...]:
    paper, gains = TABLE_1[model], _gains(trials)
    return (
        TITLES[model],
        *(1e3 * paper.whole_s[0], 1e3 * paper.children_s[0], paper.gain),
        *(1e3 * trials["plain"].answered_s, 1e3 * trials["children"].answered_s, gains.answers),
        *(gains.loads, gains.together, gains.bound),
    )


def _gains(trials: Mapping[str, LoadTrial]) -> Gains:
    return Gains.of(trials["plain"], trials["children"], trials["children_in_turn"])
