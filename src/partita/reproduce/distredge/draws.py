"""Figure 5 of DistrEdge: how many random splits the partitioner's score needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

import msgspec

from partita.planners import Evaluator, LayerOrder
from partita.planners.distredge.lcpss import PartitionOptions, find_partition
from partita.planners.distredge.places import Volume
from partita.planners.distredge.process import SplitProcess
from partita.planners.distredge.settings import REPAIRED
from partita.planners.settings import read_settings
from partita.reproduce.bench import Bench, find_cluster
from partita.reproduce.distredge.setting import DRAWS, MAIN_MODEL, PAPER
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.study import Case

#: The paper's two clusters of Figure 5.
PLACES = ("DB-50", "NA-nano")
_PLANNER = "distredge"
#: The paper's number of draws from which rates are stable.
_STABLE_FROM = 100
#: Rates within this share of each other are stable: our reading, not tuned.
_STABLE = 0.03

Starts = tuple[int, ...]


class _Rate(msgspec.Struct, frozen=True):
    """Images per second of the best plan found for a partition."""

    images_per_second: float


@dataclass(frozen=True)
class _Spread:
    """What repeated runs with one number of draws give: rates, and how often each partition."""

    rates: tuple[float, ...]
    partitions: Counter[Starts]

    @property
    def width(self) -> float:
        """Largest less smallest rate, over the mean."""
        return (max(self.rates) - min(self.rates)) / mean(self.rates)


@figure(PAPER, 5, "Random split decisions in the partition's score")
def make_draws(bench: Bench) -> Drawn:
    """Least, mean and most images per second over repeated partitions."""
    spreads = {(place, count): _repeat(bench, place, count) for place in PLACES for count in DRAWS}
    rows: list[tuple[Cell, ...]] = [
        (
            place,
            count,
            min(spread.rates),
            mean(spread.rates),
            max(spread.rates),
            len(spread.partitions),
            100 * spread.partitions.most_common(1)[0][1] / bench.study.repeats,
        )
        for (place, count), spread in spreads.items()
    ]
    heads = ("case", "draws", "least", "mean", "most", "partitions", "% the commonest")
    title = f"Figure 5: images per second over {bench.study.repeats} partitions"
    places = tuple(float(count) for count in DRAWS)
    chart = Chart(
        title,
        "lines",
        places,
        {place: tuple(mean(spreads[place, n].rates) for n in DRAWS) for place in PLACES},
        "random split decisions",
        "images per second",
        {
            place: tuple(
                (min(spreads[place, n].rates), max(spreads[place, n].rates)) for n in DRAWS
            )
            for place in PLACES
        },
    )
    return Drawn((Table(title, heads, tuple(rows)),), _claims(spreads), (chart,))


def _repeat(bench: Bench, place: str, count: int) -> _Spread:
    """The rates of partitions that differ in the seed of their random splits only."""
    outline = LayerOrder(bench.graph(MAIN_MODEL))
    devices = len(find_cluster(place).providers)
    drawn = [
        find_partition(outline, PartitionOptions(devices, decisions=count, seed=seed)).volumes
        for seed in range(bench.study.repeats)
    ]
    rates = {volumes: _measure(bench, place, volumes) for volumes in dict.fromkeys(drawn)}
    starts = Counter(tuple(volume.start for volume in volumes) for volumes in drawn)
    return _Spread(tuple(rates[volumes] for volumes in drawn), starts)


def _measure(bench: Bench, place: str, volumes: tuple[Volume, ...]) -> float:
    """Images per second of a partition split by OSDS, mean over the study's seeds."""
    return mean(_split(bench, place, volumes, seed) for seed in bench.study.seeds)


def _split(bench: Bench, place: str, volumes: tuple[Volume, ...], seed: int) -> float:
    case = Case(place, MAIN_MODEL, _PLANNER, seed, bench.settings(_PLANNER))
    names = "-".join(str(volume.start) for volume in volumes)
    bench.advance(f"volumes {names} on {place}")
    key = bench.key("partition", case) | {"volumes": names}
    rate = bench.cache.get(key, _Rate)
    if rate is None:
        # Only here: PyTorch takes a second to load.
        from partita.planners.distredge.train import train

        options = bench.options(case)
        process = SplitProcess(Evaluator(bench.cost(place, MAIN_MODEL), options), volumes)
        trained = train(process, read_settings(REPAIRED, _PLANNER, options.method))
        rate = _Rate(1 / trained.latency_s)
        bench.cache.put(key, rate)
    return rate.images_per_second


def _claims(spreads: Mapping[tuple[str, int], _Spread]) -> tuple[Claim, ...]:
    few = max(spread.width for (_, count), spread in spreads.items() if count < _STABLE_FROM)
    many = max(spread.width for (_, count), spread in spreads.items() if count >= _STABLE_FROM)
    kinds = max(len(s.partitions) for (_, count), s in spreads.items() if count >= _STABLE_FROM)
    return (
        Claim(
            "Draws",
            "rates vary in a wide range with 25 and 50 draws",
            f"a range of at most {few:.1%} of the mean",
            few > _STABLE,
        ),
        Claim(
            "Draws",
            "rates are stable with 100 draws or more",
            f"a range of at most {many:.1%} of the mean, over up to {kinds} partitions",
            many <= _STABLE,
        ),
    )
