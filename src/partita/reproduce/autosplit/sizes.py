"""Table 2 and Figure 7: what lies on the edge, by the cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import geometric_mean

from partita.reproduce.autosplit.comparison import Compared, compare, find_subject, keep
from partita.reproduce.autosplit.cost_points import Point, measure_point
from partita.reproduce.autosplit.setting import FLOAT_BITS, MODELS, PAPER, Setting, pick_models
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

#: Section 5.4, which are geometric means of Table 2.
_PAPER_RATIOS = {"QDMP_E": 14.7, "QDMP_E+U4": 3.1}
_MIB = 2**20
#: What rounding to the digits of Table 2 explains.
_ROUNDING = 0.02
#: Figure 7: cuts of ResNet-50, and widths of weights, activations and what is sent.
_CUTS = (12, 53)
_WIDTHS = ((16, 16, 16), (8, 8, 8), (8, 8, 1), (4, 4, 1), (2, 2, 1))


@dataclass(frozen=True)
class Sized:
    """A model of Table 2.

    Attributes:
        every: The methods' answers where all that crosses is sent.
        one: The same where the last layer's output alone is.
        counted: MiB at the paper's cuts, by cut and width.
    """

    every: Compared
    one: Compared
    counted: Mapping[tuple[int, int], float]


Found = Mapping[str, Sized]
Points = Mapping[tuple[int, tuple[int, int, int]], Point]


@figure(PAPER, 2, "Edge sizes beside QDMP_E and QDMP_E+U4", kind="table")
def make_sizes(bench: Bench) -> Drawn:
    """Counted at the paper's cuts, and at ours with and without all tensors sent."""
    names = pick_models(
        bench.study.models, tuple(name for name, said in MODELS.items() if said.sizes)
    )
    return draw_sizes(
        {
            name: Sized(
                compare(bench, name, Setting()),
                compare(bench, name, Setting(sends_one=True)),
                _printed_sizes(bench, name),
            )
            for name in names
        }
    )


def _printed_sizes(bench: Bench, name: str) -> Mapping[tuple[int, int], float]:
    """MiB at the paper's cuts by width."""
    sizes = MODELS[name].sizes
    cuts = () if sizes is None else dict.fromkeys((sizes.split, sizes.qdmp_split))

    def find() -> dict[str, float]:
        subject = find_subject(bench, name)
        return {
            f"{cut} {width}": measure_point(subject, cut, (width, width, width)).table_bytes / _MIB
            for cut in cuts
            for width in (2, 4, 6, 8, FLOAT_BITS)
        }

    found = keep(bench, "sizes", (name, Setting()), dict[str, float], find)
    return {(int(cut), int(bits)): mib for (cut, bits), mib in
            ((key.split(), mib) for key, mib in found.items())}  # fmt: skip


def draw_sizes(found: Found) -> Drawn:
    """Table 2 as printed, counted, and ours."""
    printed: list[tuple[Cell, ...]] = []
    ours: list[tuple[Cell, ...]] = []
    claims: list[Claim] = []
    for name, sized in found.items():
        sizes, counted = MODELS[name].sizes, sized.counted
        if sizes is None:
            continue
        whole = counted[sizes.qdmp_split, FLOAT_BITS]
        low, high = (counted[sizes.split, width] for width in (2, 8))
        printed.append((name, sizes.split, sizes.mb, low, high, sizes.qdmp_split, sizes.qdmp_mb,
                        whole, sizes.u4_mb, whole / 4))  # fmt: skip
        for counting, one in (("all", sized.every), ("one", sized.one)):
            auto, qdmp = one.auto, one.qdmp
            ratio = qdmp.table_bytes / auto.table_bytes if auto.table_bytes else None
            ours.append((name, counting, auto.kind, qdmp.kind, auto.index, auto.table_bytes / _MIB,
                         qdmp.index, qdmp.table_bytes / _MIB, ratio))  # fmt: skip
        claims += _claim_sizes(name, counted)
    tables = (
        Table(
            "Table 2: printed, and MiB counted at its cuts",
            ("model", "AUTO-SPLIT after", "MB", "2 bits", "8 bits", "QDMP_E after", "MB",
             "16 bits", "U4, MB", "4 bits"),
            tuple(printed),
        ),
        Table(
            "Table 2: ours at 3 Mbit/s, MiB; tensors sent: all that cross, or the last layer's",
            ("model", "sent", "AUTO-SPLIT", "QDMP_E", "after", "MiB", "after", "MiB",
             "QDMP_E/AUTO-SPLIT"),
            tuple(ours),
            text_columns=4,
        ),
    )  # fmt: skip
    return Drawn(tables, (*claims, *_claim_ratios(found)), (), _NOTES)


_NOTES = (
    "its MB are MiB of weights and the largest tensor that a layer makes, biases left out",
    "equation 1 sends what the last layer makes: at YOLOv3's layers 33 and 58 maps of earlier"
    " layers, which the detector reads again, are left behind",
)


def _claim_sizes(name: str, counted: Mapping[tuple[int, int], float]) -> list[Claim]:
    sizes = MODELS[name].sizes
    if sizes is None:
        return []
    mib = counted[sizes.qdmp_split, FLOAT_BITS]
    slip = f"; {sizes.slip}" if sizes.slip else ""
    claims = [
        Claim(
            name,
            f"QDMP_E holds {sizes.qdmp_mb:g} MB up to layer {sizes.qdmp_split}",
            f"{mib:.4g} MiB{slip}",
            abs(mib / sizes.qdmp_mb - 1) <= _ROUNDING,
            "count",
        )
    ]
    low, high = (counted[sizes.split, width] for width in (2, 8))
    claims.append(
        Claim(
            name,
            f"AUTO-SPLIT holds {sizes.mb:g} MB up to layer {sizes.split}",
            f"{low:.3g} to {high:.3g} MiB with 2 to 8 bits",
            low * (1 - _ROUNDING) - 0.05 <= sizes.mb <= high * (1 + _ROUNDING) + 0.05,
            "count",
        )
    )
    return claims


def _claim_ratios(found: Found) -> list[Claim]:
    printed = [said.sizes for said in MODELS.values() if said.sizes]
    ratios = {
        "QDMP_E": geometric_mean(one.qdmp_mb / one.mb for one in printed),
        "QDMP_E+U4": geometric_mean(one.u4_mb / one.mb for one in printed),
    }
    claims = [
        Claim(
            "the geometric mean of Table 2 as printed",
            f"AUTO-SPLIT reduces the edge's size by {paper}x compared to {rival}",
            f"{ratios[rival]:.2f}x",
            abs(ratios[rival] / paper - 1) < 0.01,
            "count",
        )
        for rival, paper in _PAPER_RATIOS.items()
    ]
    counted = {
        "all tensors sent": [sized.every for sized in found.values()],
        "the last layer's sent": [sized.one for sized in found.values()],
    }
    for words, answers in counted.items():
        pairs = [
            (one.qdmp.table_bytes, one.auto.table_bytes)
            for one in answers
            if one.auto.table_bytes and one.qdmp.table_bytes
        ]
        if not pairs:
            continue
        ours = geometric_mean(other / own for other, own in pairs)
        claims += [
            Claim(
                f"AUTO-SPLIT with {words}",
                f"the edge's size reduced by {paper}x compared to {rival}",
                f"{ours / divisor:.1f}x over {len(pairs)} models",
                ours / divisor >= paper,
            )
            for (rival, paper), divisor in zip(_PAPER_RATIOS.items(), (1, 4), strict=True)
        ]
    return claims


@figure(PAPER, 7, "ResNet-50 cut after layers 12 and 53")
def make_points(bench: Bench) -> Drawn:
    """Latency and edge size by the bits of weights, activations and what is sent."""
    setting = Setting()

    def find() -> dict[str, Point]:
        subject = find_subject(bench, "resnet50")
        return {
            f"{cut} {number}": measure_point(subject, cut, widths)
            for cut in _CUTS
            for number, widths in enumerate(_WIDTHS)
        }

    found = keep(bench, "points", ("resnet50", setting), dict[str, Point], find)
    return draw_points(
        {(cut, widths): found[f"{cut} {number}"] for cut in _CUTS
         for number, widths in enumerate(_WIDTHS)}
    )  # fmt: skip


def _title(widths: tuple[int, int, int]) -> str:
    return "W{}A{}-T{}".format(*widths)


def draw_points(found: Points) -> Drawn:
    """Figure 7 from its points."""
    rows: list[tuple[Cell, ...]] = []
    for widths in _WIDTHS:
        early, late = (found[cut, widths] for cut in _CUTS)
        rows.append((_title(widths), 1e3 * early.one_s, 1e3 * early.all_s, 1e3 * late.one_s,
                     early.table_bytes / _MIB, late.table_bytes / _MIB))  # fmt: skip
    table = Table(
        "Figure 7: ResNet-50, ms at 3 Mbit/s, and MiB on the edge",
        ("bits", "after 12", "after 12, all that cross sent", "after 53", "MiB, 12", "MiB, 53"),
        tuple(rows),
    )
    names = ("after 12", "after 12, all that cross sent", "after 53")
    columns: list[tuple[float | None, ...]] = [
        tuple(1e3 * found[12, widths].one_s for widths in _WIDTHS),
        tuple(1e3 * found[12, widths].all_s for widths in _WIDTHS),
        tuple(1e3 * found[53, widths].one_s for widths in _WIDTHS),
    ]
    chart = Chart(
        "Figure 7: ResNet-50, 3 Mbit/s",
        "bars",
        tuple(_title(widths) for widths in _WIDTHS),
        dict(zip(names, columns, strict=True)),
        "bits of weights, activations and what is sent",
        "milliseconds",
    )
    notes = (
        "after layer 12 the skip connection crosses, too: 903,168 elements in all, of which the"
        " paper sends the 100,352 that layer 12 makes",
        "of its fourth and fifth bars the text says only that the models are smaller still: here"
        " 4 and 2 bits",
    )
    return Drawn((table,), _claim_points(found), (chart,), notes)


def _claim_points(found: Points) -> tuple[Claim, ...]:
    wide, one_bit, least = _WIDTHS[0], _WIDTHS[2], _WIDTHS[-1]
    saved = 1 - found[53, wide].one_s / found[12, wide].one_s
    sent = found[12, wide].sent_one / found[53, wide].sent_one
    early, late = found[12, one_bit], found[53, one_bit]
    gain, gain_all = 1 - early.one_s / late.one_s, 1 - early.all_s / late.one_s
    smaller = found[53, least].table_bytes / found[12, least].table_bytes
    return (
        Claim("W16A16-T16", "after 53 it is 81% faster than after 12", f"{saved:.0%}",
              saved >= 0.805),
        Claim("after 53", "transmission is about 3x less than after 12",
              f"{sent:.0f}x: 1000 elements of 100,352", 2.5 <= sent <= 3.5, "count"),
        Claim("W8A8-T1", "after 12 it is 7% faster than after 53",
              f"{gain:.0%}; {gain_all:.0%} with all that cross sent", gain >= 0.065),
        Claim("W2A2-T1", "the edge is 20x smaller after 12", f"{smaller:.1f}x", smaller >= 19.5,
              "count"),
    )  # fmt: skip
