"""Table 2: the paper's children, what each holds and how long each loads alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.loading.published import (
    PAPER,
    TABLE_2,
    TABLE_3,
    TITLES,
    chosen_models,
)
from partita.reproduce.loading.pytorch import check_pytorch
from partita.reproduce.loading.setting import (
    bound_by,
    draw_nothing,
    name_impossible,
    open_load_bench,
    state,
    weight_bytes,
)

#: Loads of which the longest is no more than so many times the shortest are about equal: a
#: generous reading of the paper's aim, not tuned.
_EQUAL = 1.25
#: Sizes and seconds of the children, by model.
Parts = Mapping[str, tuple[Sequence[int], Sequence[float]]]


@figure(PAPER, 2, "Where the children begin", kind="table")
def make_parts(bench: Bench) -> Drawn:
    """The paper's division of four models, child by child."""
    models = chosen_models(bench.study.models, list(TABLE_2))
    if not models:
        return draw_nothing(2, TABLE_2)
    check_pytorch()
    parts: dict[str, tuple[Sequence[int], Sequence[float]]] = {}
    for model in models:
        starts = list(TABLE_2[model].values())
        with open_load_bench(bench, model, starts) as load_bench:
            variant = "torch_children_in_turn"
            parts[model] = (
                weight_bytes(load_bench.model, starts),
                load_bench.measure((variant,))[variant].parts_s,
            )
    return draw_parts(parts, state(bench))


def draw_parts(parts: Parts, here: str) -> Drawn:
    """The table of what was measured, and in which state."""
    tables = (_list_children(parts, here), _list_bounds(parts))
    bounds = {model: bound_by(sizes) for model, (sizes, _) in parts.items()}
    notes = (
        *name_impossible({model: TABLE_3[model] for model in parts}, bounds),
        "Children are checkpoints of PyTorch, each loaded alone. Their weights count the statistics"
        " of normalisations, as the paper's checkpoints hold them.",
    )
    return Drawn(tables, tuple(_claims(parts)), (_draw_bars(parts, here),), notes)


def _list_children(parts: Parts, here: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, (sizes, seconds) in parts.items():
        whole = sum(sizes)
        children = zip(TABLE_2[model].items(), sizes, seconds, strict=True)
        for number, ((position, start), size, load_s) in enumerate(children):
            where = (TITLES[model], str(number + 1), position, start)
            rows.append((*where, size / 1e6, 100 * size / whole, 1e3 * load_s))
    heads = ("model", "child", "paper", "begins here with", "MB", "% of all", "loads alone, ms")
    return Table(f"Table 2: the paper's children ({here})", heads, tuple(rows), text_columns=4)


def _list_bounds(parts: Parts) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, (sizes, seconds) in parts.items():
        paper = TABLE_3[model]
        beyond = sum(gain > bound_by(sizes) for gain in paper.gains)
        verdict = f"{beyond} of {len(paper.gains)} impossible" if beyond else "possible"
        bounds = (bound_by(sizes), bound_by(seconds))
        rows.append((TITLES[model], verdict, len(sizes), *bounds, paper.gain))
    heads = ("model", "the paper's gains", "children", "bound by size", "by load time here")
    title = "Table 2: the most that loading at the same time gains, and the paper's gain in Table 3"
    return Table(title, (*heads, "paper, median"), tuple(rows), text_columns=2)


def _claims(parts: Parts) -> list[Claim]:
    claims = []
    for model, (sizes, seconds) in parts.items():
        longest = max(seconds) / min(seconds)
        ours = (
            f"children of which the largest holds {max(sizes) / sum(sizes):.0%} of the weights; the"
            f" slowest takes {longest:.1f} times as long as the fastest"
        )
        said = f"{len(sizes)} children that load in about equal times"
        claims.append(Claim(TITLES[model], said, ours, longest <= _EQUAL, "measurement"))
    return claims


def _draw_bars(parts: Parts, here: str) -> Chart:
    times = zip_longest(*(seconds for _, seconds in parts.values()))
    columns = list(zip(*times, strict=True))
    series = {
        TITLES[model]: tuple(None if load_s is None else 1e3 * load_s for load_s in column)
        for model, column in zip(parts, columns, strict=True)
    }
    places = tuple(str(number + 1) for number in range(len(columns[0])))
    title = f"Table 2: the paper's children, each loaded alone ({here})"
    return Chart(title, "bars", places, series, "child", "load time, ms")
