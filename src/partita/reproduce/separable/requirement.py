"""Figure 5: which devices and links a staleness serves."""

from __future__ import annotations

from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.separable.setting import PAPER, SMALL, separable
from partita.separable.requirements import requirements

#: Section 4.6: a Raspberry Pi 3B+.
_PI_PER_S, _PI_BITS_PER_S = 1.7e8, 300e6
#: All that fit in stages of six blocks.
_STALENESSES = (1, 2, 3, 6)
_RATES = tuple(
    1e6 * millions for millions in (10, 20, 50, 100, 170, 300, 500, 1000, 2000, 5000, 10_000)
)


@figure(PAPER, 5, "Computation and transmission under different alpha")
def make_requirements(bench: Bench) -> Drawn:
    """The slowest link that hides transfers, by computing power; the first stage is the hardest."""
    found = requirements(separable(SMALL))
    first = found[0]
    rows: list[tuple[Cell, ...]] = [
        (
            f"conv{one.stage + 1}",
            one.macs,
            one.message_bits,
            one.least_staleness(_PI_PER_S, _PI_BITS_PER_S),
            one.least_staleness(_PI_PER_S / 2, _PI_BITS_PER_S),
        )
        for one in found
    ]
    table = Table(
        f"Figure 5: a block of one group of {SMALL}, and the least alpha at 1.7e8 operations per"
        " second and 300 Mbit/s",
        ("stage", "multiply-adds", "bits sent", "an operation is one", "is half of one"),
        tuple(rows),
    )
    chart = Chart(
        f"Figure 5: links that hide transfers of {SMALL} in 4 groups: those above a line",
        "lines",
        tuple(rate / 1e6 for rate in _RATES),
        {
            f"alpha = {alpha}": tuple(first.least_bits_per_s(r, alpha) / 1e6 for r in _RATES)
            for alpha in _STALENESSES
        }
        | {"Raspberry Pi 3B+": _place_pi()},
        "million multiply-adds per second",
        "Mbit/s",
        log_axes="xy",
    )
    least = first.least_staleness(_PI_PER_S, _PI_BITS_PER_S)
    claim = Claim(
        "Raspberry Pi 3B+, 1.7e8 FLOPS and 300 Mbps",
        "the specification is sufficient to deploy",
        f"alpha of at least {least:.2f} where an operation is a multiply-add,"
        f" {least / 2:.2f} where it is half of one: 1 is enough",
        least <= 1,
        "count",
    )
    notes = (
        "The figure has ratios of computation to transmission, with the area under a line served;"
        " here the axes are what a device and a link have, with the area above a line served.",
    )
    return Drawn((table,), (claim,), (chart,), notes)


def _place_pi() -> tuple[float | None, ...]:
    """A point at its rate."""
    return tuple(_PI_BITS_PER_S / 1e6 if rate == _PI_PER_S else None for rate in _RATES)
