"""Table 1: the networks' layers and sizes."""

from __future__ import annotations

from dataclasses import replace

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Claim, Drawn, Table, figure
from partita.reproduce.separable.setting import ACCURACIES, GROUPS, LARGE, PAPER, separable
from partita.separable.architecture import Architecture
from partita.separable.residual import Block, Conv

#: Table 1, in millions.
_PRINTED = {1: 4.39, GROUPS: 4.54}


@figure(PAPER, 1, "ResNeXt-56 and its separable form", kind="table")
def make_models(bench: Bench) -> Drawn:
    """Stages, and learned numbers of all networks of the paper."""
    large = separable(LARGE)
    plain = replace(large, groups=1)
    rows: list[tuple[Cell, ...]] = []
    for stage in range(len(large.stages)):
        pair = (_last_block(net, stage) for net in (plain, large))
        rows.append(
            (f"conv{stage + 1}", *(_describe(block, net) for block, net in
                                   zip(pair, (plain, large), strict=True)))
        )  # fmt: skip
    layers = Table(
        "Table 1: a block of each stage: outputs/groups of its convolutions, all groups together",
        ("stage", "plain", "separable"),
        tuple(rows),
        text_columns=3,
    )
    counts, claims = _count_all()
    return Drawn((layers, counts), claims, (), _NOTES)


_NOTES = (
    "Table 1 prints the input width of a block's first convolution where its output width belongs"
    " (16 for 128 in the first stage); both networks project their shortcut in the first block of"
    " every stage, and have the counts that are printed only so.",
    "Counted without running statistics of normalisations, with 100 classes.",
)


def _last_block(network: Architecture, stage: int) -> Block:
    return [block for block in network.blocks() if block.stage == stage][-1]


def _describe(block: Block, network: Architecture) -> str:
    convolutions = [layer for layer in block.branch if isinstance(layer, Conv)]
    parts = [
        f"{conv.kernel[0]}x{conv.kernel[1]}, {network.groups * conv.channels}"
        f"/{network.groups * conv.paths}"
        for conv in convolutions
    ]
    return f"{'; '.join(parts)}; times {network.stages[block.stage]}"


def _count_all() -> tuple[Table, tuple[Claim, ...]]:
    rows: list[tuple[Cell, ...]] = []
    claims: list[Claim] = []
    for name in (LARGE, *ACCURACIES):
        large = separable(name)
        counts = [replace(large, groups=groups).count_parameters() for groups in (1, GROUPS)]
        grown = counts[1] / counts[0] - 1
        rows.append((name, *counts, round(100 * grown, 2)))
        if name == LARGE:
            for (groups, printed), count in zip(_PRINTED.items(), counts, strict=True):
                form = "separable" if groups > 1 else "plain"
                claims.append(
                    Claim(
                        f"{name}, {form}",
                        f"{printed}M parameters",
                        f"{count:,}",
                        round(count / 1e6, 2) == printed,
                        "count",
                    )
                )
        claims.append(
            Claim(
                f"{name} in {GROUPS} groups",
                "the size may increase by about 1% ~ 6%",
                f"{grown:.2%}",
                0.005 <= grown < 0.065,
                "count",
            )
        )
    table = Table(
        "Learned numbers",
        ("network", "plain", f"{GROUPS} groups", "larger, %"),
        tuple(rows),
        digits=9,
    )
    return table, tuple(claims)
