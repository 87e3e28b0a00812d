"""Table 8: uplinks; beside it what the paper leaves open: edge memory, the cost of 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import inf

from partita.reproduce.autosplit.comparison import Compared, compare
from partita.reproduce.autosplit.overall import RANGES, excess, never_slower, reduction
from partita.reproduce.autosplit.setting import MODELS, PAPER, Setting, pick_models
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure

UPLINKS = (1.0, 3.0, 10.0, 20.0)
#: Table 8: latency over all in the cloud, by model and Mbit/s.
_PAPER = {
    ("yolov3", 1.0): 0.26,
    ("yolov3", 3.0): 0.37,
    ("yolov3", 10.0): 0.83,
    ("yolov3", 20.0): 0.75,
    ("yolov3_spp", 20.0): 0.71,
}
#: Megabytes of the edge's memory, and steps for a multiplication of 16 bits.
MEMORIES = (1.0, 4.0, 16.0, 64.0, inf)
WIDE = (1, 2)

ByUplink = Mapping[tuple[str, float], Compared]
BySetting = Mapping[tuple[str, float, int], Compared]


@figure(PAPER, 8, "Uplinks, the edge's memory, the cost of 16 bits", kind="table")
def make_sweeps(bench: Bench) -> Drawn:
    """All models at 1 to 20 Mbit/s, then at 3 with less memory and costlier 16 bits."""
    names = pick_models(bench.study.models, tuple(MODELS))
    uplinks: dict[tuple[str, float], Compared] = {}
    settings: dict[tuple[str, float, int], Compared] = {}
    for name in names:  # one after the other: a network and its tables are large
        for uplink in UPLINKS:
            uplinks[name, uplink] = compare(bench, name, Setting(uplink_mbit_s=uplink))
        for memory, wide in product(MEMORIES, WIDE):
            setting = Setting(edge_bytes=1e6 * memory, wide_steps=wide)
            settings[name, memory, wide] = compare(bench, name, setting)
    one, other = draw_uplinks(uplinks), draw_settings(settings)
    return Drawn(
        (*one.tables, *other.tables), (*one.claims, *other.claims), one.charts, other.notes
    )


def draw_uplinks(found: ByUplink) -> Drawn:
    """Table 8 over all models."""
    names = list(dict.fromkeys(name for name, _ in found))
    rows: list[tuple[Cell, ...]] = []
    for (name, uplink), one in found.items():
        share = one.auto.latency_s / one.cloud.latency_s
        cells = (uplink, _PAPER.get((name, uplink)), share, one.auto.index, one.auto.signal_db)
        rows.append((name, one.auto.kind, *cells))
    columns = ("model", "answer", "Mbit/s", "paper", "ours", "last layer", "outputs, dB")
    table = Table("Table 8: latency over all in the cloud", columns, tuple(rows), text_columns=2)
    series = {
        name: tuple(found[name, u].auto.latency_s / found[name, u].cloud.latency_s for u in UPLINKS)
        for name in names
    }
    chart = Chart(
        "Table 8: AUTO-SPLIT's latency over that of all in the cloud",
        "lines",
        UPLINKS,
        series,
        "uplink, Mbit/s",
        "latency / CLOUD16",
        log_axes="x",
    )
    worst = max(excess(one, one.auto) for one in found.values())
    never = never_slower(worst, f"{len(found)} models and uplinks")
    return Drawn((table,), (*_claim_uplinks(found), never), (chart,))


def _claim_uplinks(found: ByUplink) -> list[Claim]:
    return [
        Claim(
            f"{name} at {uplink:g} Mbit/s",
            f"{paper} of all in the cloud",
            f"{one.auto.latency_s / one.cloud.latency_s:.2f}",
            one.auto.latency_s <= (paper + 0.005) * one.cloud.latency_s,
        )
        for (name, uplink), paper in _PAPER.items()
        for one in [found.get((name, uplink))]
        if one is not None
    ]


def draw_settings(found: BySetting) -> Drawn:
    """Reductions by memory and cost of 16 bits, and whether a setting has the paper's."""
    rows: list[tuple[Cell, ...]] = []
    for (name, memory, wide), one in found.items():
        room = "any" if memory == inf else f"{memory:g} MB"
        shares = (
            100 * reduction(one.auto, one.rivals[rival]) if rival in one.rivals else None
            for rival in ("U8", *RANGES)
        )
        rows.append((name, room, one.auto.kind, wide, *shares, one.auto.signal_db))
    table = Table(
        "Reductions of latency, %, by the edge's memory and the steps of a 16-bit multiplication",
        ("model", "memory", "answer", "steps", "U8", *RANGES, "outputs, dB"),
        tuple(rows),
        text_columns=3,
    )
    names = list(dict.fromkeys(name for name, _, _ in found))
    claims = [claim for name in names for claim in _claim_reductions(name, found)]
    return Drawn((table,), tuple(claims), (), _NOTES)


_NOTES = (
    "where a rival does not fit in the edge's memory it is the best place of the order that does;"
    " U8 that does not fit has no number",
)


def _claim_reductions(name: str, found: BySetting) -> list[Claim]:
    """The most that a setting gives; where that is too little, what its seconds are made of."""
    own = {key: one for key, one in found.items() if key[0] == name}
    claims = []
    for rival, (least, most) in RANGES.items():
        shares = {
            key: reduction(one.auto, one.rivals[rival])
            for key, one in own.items()
            if rival != "CLOUD16" or one.auto.kind != "cloud"
        }
        words = f"{least:.0%} to {most:.0%} under {rival} in at least one setting"
        if not shares:
            claims.append(Claim(name, words, "all in the cloud in every setting", False))
            continue
        best = max(shares, key=lambda key: shares[key])
        _, memory, wide = best
        room = "any memory" if memory == inf else f"{memory:g} MB"
        holds = shares[best] >= least
        terms = "" if holds else f"; {_terms(own[best])}"
        ours = f"{shares[best]:.0%} with {room} and {wide} steps for 16 bits{terms}"
        claims.append(Claim(name, words, ours, holds))
    return claims


def _terms(one: Compared) -> str:
    auto, cloud = one.auto, one.cloud
    return (
        f"its {1e3 * auto.latency_s:.0f} ms are {1e3 * auto.edge_s:.0f} on the edge,"
        f" {1e3 * auto.send_s:.0f} sending and {1e3 * auto.cloud_s:.0f} in the cloud, where all in"
        f" the cloud sends for {1e3 * cloud.send_s:.0f} and computes for {1e3 * cloud.cloud_s:.0f}"
    )
