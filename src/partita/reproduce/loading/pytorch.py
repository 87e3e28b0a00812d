"""Table 3: PyTorch's checkpoints, whole and as the paper's children, and a bundle beside them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from statistics import median

from partita.errors import InputError, how_to_install
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Drawn, Table, figure
from partita.reproduce.loading.bench.load_bench import available
from partita.reproduce.loading.bench.trials import LoadTrial
from partita.reproduce.loading.published import PAPER, TABLE_2, TABLE_3, TITLES, chosen_models
from partita.reproduce.loading.setting import (
    Gains,
    Medians,
    bound_by,
    claim_gain,
    draw_nothing,
    name_impossible,
    open_load_bench,
    state,
    time_chart,
    time_table,
    weight_bytes,
)

VARIANTS = {
    "torch_load": "torch.load",
    "torch_mmap": "torch.load, mmap",
    "torch_safetensors": "Safetensors",
    "torch_children": "children, at the same time",
    "torch_children_in_turn": "children, in turn",
    "bundle": "bundle",
}
_HEADS = (
    *("model", "children", "paper: whole, s", "paper: children, s", "paper: gain", "its bound"),
    *("whole, s", "children, s", "gain", "same time/in turn", "bound"),
)


@figure(PAPER, 3, "PyTorch", kind="table")
def make_pytorch(bench: Bench) -> Drawn:
    """Checkpoints of whole models against the paper's children, and bundles."""
    models = chosen_models(bench.study.models, list(TABLE_3))
    if not models:
        return draw_nothing(3, TABLE_3)
    check_pytorch()
    medians, bounds = {}, {}
    for model in models:
        starts = list(TABLE_2[model].values())
        with open_load_bench(bench, model, starts) as load_bench:
            medians[model] = load_bench.measure(available(tuple(VARIANTS)))
            bounds[model] = bound_by(weight_bytes(load_bench.model, starts))
    return draw_pytorch(medians, bounds, state(bench))


def draw_pytorch(medians: Medians, bounds: Mapping[str, float], here: str) -> Drawn:
    """The table of what was measured, in which state, and of what is possible by size."""
    rows = tuple(_row(model, trials, bounds[model]) for model, trials in medians.items())
    table = Table(f"Table 3: until all is loaded ({here})", _HEADS, rows)
    title = f"Table 3: from the call to the first answer ({here})"
    tables = (
        table,
        time_table(f"{title}, ms", medians, VARIANTS, "answered_s"),
        time_table("Table 3: from the process's start, ms", medians, VARIANTS, "from_start_s"),
    )
    claims = tuple(
        claim_gain(model, TABLE_3[model], _gains(trials)) for model, trials in medians.items()
    )
    notes = (
        *name_impossible({model: TABLE_3[model] for model in medians}, bounds),
        *(_say_bundle(model, trials) for model, trials in medians.items()),
        "The paper's machine has a GPU, this measurement uses the processor. Loading by PyTorch is"
        " the checkpoint and the modules that take it, without values drawn for them before. Bound:"
        " all children's load times, each alone, over the longest.",
    )
    return Drawn(tables, claims, (time_chart(title, medians, VARIANTS),), notes)


def check_pytorch() -> None:
    """Raise unless PyTorch is installed.

    Raises:
        InputError: It is not; says how it is.
    """
    if find_spec("torch") is None:
        raise InputError(
            "Tables 2 and 3 of 'loading' need 'torch', which is not installed. Install it:"
            f" {how_to_install('train')}.",
            subject="torch",
        )


def _row(model: str, trials: Mapping[str, LoadTrial], bound: float) -> tuple[Cell, ...]:
    paper = TABLE_3[model]
    gains = _gains(trials)
    return (
        *(TITLES[model], paper.count),
        *(median(paper.whole_s), median(paper.children_s), paper.gain, bound),
        *(trials["torch_load"].loaded_s, trials["torch_children"].loaded_s),
        *(gains.loads, gains.together, gains.bound),
    )


def _gains(trials: Mapping[str, LoadTrial]) -> Gains:
    return Gains.of(
        trials["torch_load"], trials["torch_children"], trials["torch_children_in_turn"]
    )


def _say_bundle(model: str, trials: Mapping[str, LoadTrial]) -> str:
    whole, bundle = trials["torch_load"], trials["bundle"]
    called = whole.answered_s / bundle.answered_s
    started = whole.from_start_s / bundle.from_start_s
    return (
        f"{TITLES[model]}: from the call to the first answer the bundle is {called:.2f}x as fast as"
        f" torch.load, from the process's start {started:.2f}x."
    )
