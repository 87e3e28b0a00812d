"""Figures 6 to 10 of DistrEdge: images per second of all methods, over clusters and models."""

from __future__ import annotations

from collections.abc import Sequence

from partita.reproduce.bench import Bench
from partita.reproduce.distredge.methods import (
    DISTREDGE,
    Grid,
    Place,
    claim_fastest,
    claim_larger,
    claim_over_aofl,
    known,
    rate_chart,
    rate_table,
    ratio_table,
    span,
)
from partita.reproduce.distredge.setting import MAIN_MODEL, MODELS, PAPER
from partita.reproduce.figure import Claim, Drawn, figure

#: Mbit/s of the groups in Figure 6.
_RATES = (50, 300)
_KINDS = ("nano", "xavier")


@figure(PAPER, 6, "Heterogeneous devices (VGG-16)")
def make_devices(bench: Bench) -> Drawn:
    """Groups DA, DB and DC at 50 and 300 Mbit/s."""
    groups = ("DA", "DB", "DC")
    grid = _grid(bench, [f"{group}-{rate}" for rate in _RATES for group in groups])
    unlike = [f"{group}-{rate}" for group in ("DB", "DC") for rate in _RATES]
    like = [f"DA-{rate}" for rate in _RATES]
    words = {"DA": "1.2 to 1.5x AOFL", "DB": "1.5 to 3x AOFL", "DC": "1.5 to 3x AOFL"}
    claims = [
        *claim_fastest(grid),
        *claim_over_aofl(grid, "1.5 to 3x over AOFL in DB and DC", unlike, 1.5),
        *claim_over_aofl(grid, "1.2 to 1.5x over AOFL in DA", like, 1.2),
        *claim_larger(grid, "a larger gain over AOFL in DB and DC than in DA", unlike, like),
        *_claim_idle_pi(grid),
    ]
    return _draw(6, grid, claims, words)


def _claim_idle_pi(grid: Grid) -> list[Claim]:
    claims = []
    for method, name in DISTREDGE.items():
        shares = [
            outcome.compute_s.get("pi-1", 0.0) / outcome.latency_s
            for rate in _RATES
            for outcome in grid.series(f"DC-{rate}", method).outcomes
            if not outcome.fault
        ]
        words = "the Pi 3 of DC is given nothing"
        if shares:
            ours = f"a Pi 3 that computes for at most {max(shares):.1%} of the latency"
            claims.append(Claim(name, words, ours, not any(shares)))
    return claims


@figure(PAPER, 7, "Heterogeneous network bandwidths (VGG-16)")
def make_networks(bench: Bench) -> Drawn:
    """Groups NA to ND with four Nano and with four Xavier."""
    groups = ("NA", "NB", "NC", "ND")
    grid = _grid(bench, [f"{group}-{kind}" for kind in _KINDS for group in groups])
    unlike = [f"{group}-{kind}" for group in ("NA", "ND") for kind in _KINDS]
    like = [f"{group}-{kind}" for group in ("NB", "NC") for kind in _KINDS]
    words = dict.fromkeys(("NA", "ND"), "1.2 to 1.7x AOFL") | dict.fromkeys(
        ("NB", "NC"), "1.1 to 1.3x AOFL"
    )
    claims = [
        *claim_fastest(grid),
        *claim_over_aofl(grid, "1.2 to 1.7x over AOFL in NA and ND", unlike, 1.2),
        *claim_over_aofl(grid, "1.1 to 1.3x over AOFL in NB and NC", like, 1.1),
        *claim_larger(grid, "a larger gain over AOFL in NA and ND than in NB and NC", unlike, like),
    ]
    return _draw(7, grid, claims, words)


@figure(PAPER, 8, "Sixteen devices (VGG-16)")
def make_many(bench: Bench) -> Drawn:
    """Cases LA to LD."""
    cases = ("LA", "LB", "LC", "LD")
    grid = _grid(bench, cases)
    claims = [
        *claim_fastest(grid),
        *claim_over_aofl(grid, "1.3 to 3x over AOFL", cases, 1.3),
    ]
    return _draw(8, grid, claims, dict.fromkeys(cases, "1.3 to 3x AOFL"))


@figure(PAPER, 9, "Models on DB at 50 Mbit/s")
def make_models_devices(bench: Bench) -> Drawn:
    """Eight models on unequal devices."""
    return _draw_models(bench, 9, "DB-50")


@figure(PAPER, 10, "Models on NA with Nano")
def make_models_networks(bench: Bench) -> Drawn:
    """Eight models on an uneven network."""
    return _draw_models(bench, 10, "NA-nano")


def _draw_models(bench: Bench, number: int, scenario: str) -> Drawn:
    models = bench.study.models or MODELS
    grid = Grid(bench, [Place(model, scenario, model) for model in models])
    claims = []
    for method, name in DISTREDGE.items():
        gains = known(grid.over_best(model, method) for model in models)
        words = "1.1 to 2.6x the best baseline for all models"
        if gains:
            claims.append(Claim(name, words, span(gains), min(gains) >= 1.1))
    paper = dict.fromkeys(models, "1.1 to 2.6x the best")
    return _draw(number, grid, [*claim_fastest(grid), *claims], paper, "model")


def _grid(bench: Bench, scenarios: Sequence[str]) -> Grid:
    return Grid(bench, [Place(name, name, MAIN_MODEL) for name in scenarios])


def _draw(
    number: int, grid: Grid, claims: list[Claim], paper: dict[str, str], what: str = "case"
) -> Drawn:
    title = f"Figure {number}"
    words = {place.title: paper.get(place.title) or paper[place.title[:2]] for place in grid.places}
    tables = (rate_table(grid, title, what), ratio_table(grid, title, what, words.__getitem__))
    chart = rate_chart(grid, f"{title}: images per second", what)
    return Drawn(tables, tuple(claims), (chart,), grid.faults)
