"""Figure 6: what takes how long on one device, and on four."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.graph import Graph, load_graph
from partita.planners import PlanOptions, find_plan
from partita.reproduce.bench import Bench
from partita.reproduce.figure import Cell, Chart, Claim, Drawn, Table, figure
from partita.reproduce.lanes import compute_times, transmission_times
from partita.reproduce.separable.setting import FOUND, GROUPS, PAPER, SMALL, separable
from partita.separable.graph import build_graph
from partita.separable.policy import silent
from partita.simulation import predict

#: "Quad-core ARM A57" as fast as a present engine makes it, and a board as slow as section 4.6 has
#: it: entries of the catalogue.
_DEVICES = ("cortex-a57", "raspberry-pi-3b-plus")
#: Of section 4.6; what a message waits, which the paper does not say.
_BYTES_PER_S, _LATENCIES_S = 300e6 / 8, (0.0, 1e-3)
#: "About 3X".
_SAID = 3.0
_PLAIN, _ONE = "plain on one", "separable on one"


@dataclass(frozen=True)
class Timed:
    """One answer.

    Attributes:
        compute_s: Of the device that computes longest.
        transmission_s: Of the device that sends and receives longest.
    """

    latency_s: float
    compute_s: float
    transmission_s: float

    @property
    def rest_s(self) -> float:
        """Of the latency, what the busiest device's computing does not cover."""
        return self.latency_s - self.compute_s


@figure(PAPER, 6, "Time by operation on one device and on four")
def make_deployment(bench: Bench) -> Drawn:
    """The network of table 6's first policy, placed by the ordinary planner, simulated."""
    architecture = separable(SMALL)
    plain = replace(architecture, groups=1)
    graphs = {
        _PLAIN: load_graph(build_graph(plain, silent(plain))),
        _ONE: load_graph(build_graph(architecture, FOUND[0].policy)),
    }
    found = {}
    for device in _DEVICES:
        for name, graph in graphs.items():
            bench.advance(f"{device}: {name}")
            found[device, name] = _time(graph, device, 1, 0.0)
        for latency_s in _LATENCIES_S:
            name = f"separable on {GROUPS}, {1e3 * latency_s:g} ms"
            bench.advance(f"{device}: {name}")
            found[device, name] = _time(graphs[_ONE], device, GROUPS, latency_s)
    return draw_deployment(found)


def _time(graph: Graph, device: str, count: int, latency_s: float) -> Timed:
    names = [f"board-{number}" for number in range(count)]
    links = [Link(a, b, _BYTES_PER_S, latency_s) for a in names for b in names if a != b]
    boards = [Device(name, kind=device) for name in names]
    cluster = Cluster.of(boards, links=links)
    cost = CostModel(graph, cluster)
    planner = "branches" if count > 1 else "single"
    plan = find_plan(cost, planner=planner, options=PlanOptions()).plan
    simulated = predict(cost, plan, in_flight=1)
    return Timed(
        simulated.latencies_s[0],
        max(compute_times(simulated, names).values()),
        max(transmission_times(simulated, cluster).values(), default=0.0),
    )


def draw_deployment(found: Mapping[tuple[str, str], Timed]) -> Drawn:
    """The table, the bars, and the sentence about them.

    Args:
        found: By device, and network with the number of devices.
    """
    speedups = {key: found[key[0], _ONE].latency_s / one.latency_s for key, one in found.items()}
    rows: list[tuple[Cell, ...]] = [
        (*key, 1e3 * one.latency_s, 1e3 * one.compute_s, 1e3 * one.transmission_s, speedups[key])
        for key, one in found.items()
    ]
    table = Table(
        f"Figure 6: {SMALL} with table 6's first policy, 300 Mbit/s: milliseconds of one answer",
        ("device", "network", "latency", "most computing", "most sending", "speedup"),
        tuple(rows),
        text_columns=2,
    )
    charts = tuple(_chart(device, found) for device in dict.fromkeys(key[0] for key in found))
    claims = tuple(
        Claim(f"{device}, {name}", "we can speed up inference about 3X",
              f"{speedups[device, name]:.2f}x", speedups[device, name] >= _SAID - 0.25)
        for device, name in found
        if name not in (_PLAIN, _ONE)
    )  # fmt: skip
    return Drawn((table,), claims, charts, _NOTES)


def _chart(device: str, found: Mapping[tuple[str, str], Timed]) -> Chart:
    own = {name: one for (where, name), one in found.items() if where == device}
    return Chart(
        f"Figure 6: one answer of {SMALL} on devices as {device}, simulated",
        "bars",
        tuple(name.replace(", ", ",\n") for name in own),
        {
            "computing, busiest device": tuple(1e3 * one.compute_s for one in own.values()),
            "the rest of the latency": tuple(1e3 * one.rest_s for one in own.values()),
            "sending or receiving, busiest": tuple(1e3 * o.transmission_s for o in own.values()),
        },
        "network and devices",
        "milliseconds",
    )


_NOTES = (
    "The figure's bars are not in the text: its sentence is compared. Groups are placed by the"
    " planner 'branches'. Copies in memory are part of computing here, the first transmission is"
    " the image to three devices, and nothing is gathered at the end, as group 0 answers.",
)
