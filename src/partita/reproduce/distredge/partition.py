"""Figures 4 and 5 of DistrEdge: the two settings of its partitioner."""

from __future__ import annotations

from collections.abc import Mapping

from partita.planners import LayerOrder
from partita.planners.distredge.lcpss import PartitionOptions, find_partition
from partita.reproduce.bench import Bench, find_cluster
from partita.reproduce.distredge.setting import ALPHAS, MAIN_MODEL, PAPER
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.study import Series

#: Figure 4's clusters: the paper does not name the kind of the equal devices, nor DB's bandwidth
#: and NA's kind; the latter two are those of Figure 5.
ENVIRONMENTS = ("homogeneous", "DB-50", "NA-nano", "LB", "LC", "LD")
_PLANNER = "distredge"
_BEST_ALPHA = 0.75
#: Rates that differ by less are equal: our reading, not tuned.
_SAME = 0.01
#: Layer-volumes that the paper reports for VGG-16, by alpha.
_PAPER_VOLUMES = {0.0: 16, 1.0: 2}

Found = Mapping[tuple[str, float], Series]


@figure(PAPER, 4, "The weight of transmission in the partition's score")
def make_alphas(bench: Bench) -> Drawn:
    """Images per second with alpha from 0 to 1."""
    series_by = {
        (place, alpha): bench.run(place, MAIN_MODEL, _PLANNER, alpha=alpha)
        for place in ENVIRONMENTS
        for alpha in ALPHAS
    }
    outline = LayerOrder(bench.graph(MAIN_MODEL))
    counts = {pair: _count_volumes(outline, *pair) for pair in series_by}
    heads = ("case", *(f"alpha {alpha:g}" for alpha in ALPHAS))
    rates: list[tuple[Cell, ...]] = [
        (
            place,
            *(_rate(series_by[place, alpha]) for alpha in ALPHAS),
            _best(series_by, place),
            "0.75",
        )
        for place in ENVIRONMENTS
    ]
    volumes: list[tuple[Cell, ...]] = [
        (place, *(counts[place, alpha] for alpha in ALPHAS)) for place in ENVIRONMENTS
    ]
    tables = (
        Table("Figure 4: images per second", (*heads, "best", "paper"), tuple(rates)),
        Table("Figure 4: layer-volumes (random splits of seed 0)", heads, tuple(volumes)),
    )
    series = {
        place: tuple(_rate(series_by[place, alpha]) for alpha in ALPHAS) for place in ENVIRONMENTS
    }
    title = "Figure 4: DistrEdge repaired, by the weight of transmission"
    chart = Chart(title, "lines", ALPHAS, series, "alpha", "images per second")
    claims = (*_claim_rates(series_by), _claim_volumes(counts))
    faults = dict.fromkeys(
        f"{pair[0]}: {series.fault}" for pair, series in series_by.items() if series.fault
    )
    return Drawn(tables, claims, (chart,), tuple(faults))


def _count_volumes(outline: LayerOrder, place: str, alpha: float) -> int:
    devices = len(find_cluster(place).providers)
    return len(find_partition(outline, PartitionOptions(devices, alpha=alpha)).volumes)


def _rate(series: Series) -> float | None:
    return None if series.fault else series.images_per_second


def _best(series_by: Found, place: str) -> str:
    """The alphas whose rate is the highest, or equal to it but for a hundredth."""
    rates = {alpha: _rate(series_by[place, alpha]) or 0.0 for alpha in ALPHAS}
    most = max(rates.values())
    return ", ".join(f"{alpha:g}" for alpha in ALPHAS if rates[alpha] >= (1 - _SAME) * most)


def _claim_rates(series_by: Found) -> list[Claim]:
    wanted = f"{_BEST_ALPHA:g}"
    best = [place for place in ENVIRONMENTS if wanted in _best(series_by, place).split(", ")]
    alone = [place for place in best if _best(series_by, place) == wanted]
    total = len(ENVIRONMENTS)
    ours = (
        f"alpha 0.75 among the best, to a hundredth, in {len(best)} of {total} cases,"
        f" and better than all others in {len(alone)}"
    )
    holds = len(best) == total and len(alone) > total / 2
    claims = [Claim("alpha", "0.75 is best in all cases", ours, holds)]
    for alpha in (0.0, 1.0):
        shares = [
            (_rate(series_by[place, alpha]) or 0.0) / (_rate(series_by[place, _BEST_ALPHA]) or 1.0)
            for place in ENVIRONMENTS
        ]
        ours = f"{min(shares):.2f} to {max(shares):.2f}x of what alpha 0.75 gives"
        words = f"poor performance with alpha {alpha:g}"
        claims.append(Claim("alpha", words, ours, max(shares) < 1 - _SAME))
    return claims


def _claim_volumes(counts: Mapping[tuple[str, float], int]) -> Claim:
    ours = {alpha: counts["homogeneous", alpha] for alpha in _PAPER_VOLUMES}
    words = f"{ours[0.0]} and {ours[1.0]} with four devices"
    paper = "VGG-16 has 16 layer-volumes with alpha 0 and 2 with alpha 1"
    return Claim("alpha", paper, words, ours == _PAPER_VOLUMES)
