"""What pricing asks of a cost model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from partita.cluster import Cluster
from partita.compile import FragmentWork, Layout
from partita.cost import MemoryUse
from partita.execution import Durations, Link
from partita.graph import Graph
from partita.regions import Region


class Costs(Protocol):
    """What planners ask of a cost model."""

    @property
    def graph(self) -> Graph:
        """The network."""

    @property
    def cluster(self) -> Cluster:
        """Devices and links."""

    def of(self, graph: Graph) -> Costs:
        """The costs of a graph that was quantised from this network."""

    def on(self, cluster: Cluster) -> Costs:
        """The costs where the same devices have other memory."""

    def layer_s(self, device: str, layer: str, boxes: Mapping[str, Region]) -> float:
        """The seconds for boxes of one layer's outputs, alone."""

    def work_s(self, device: str, work: FragmentWork) -> float:
        """The seconds for one fragment."""

    def transfer_s(self, source: str, target: str, size_bytes: float) -> float:
        """The seconds from the start of a message's sending to its arrival."""

    def price(self, layout: Layout) -> Durations:
        """The durations of all steps of a layout."""

    def memory(self, layout: Layout) -> Mapping[str, MemoryUse]:
        """The memory that each device needs."""

    def work_memory(self, work: FragmentWork) -> MemoryUse:
        """The memory of one fragment alone on a device, for one request."""

    def swap_s(self, device: str, use: MemoryUse) -> float:
        """The seconds per request to bring in what does not fit; 0 where the device cannot swap."""

    def bottleneck_s(self, layout: Layout) -> float:
        """The largest busy time per request over devices and links."""

    def forget(self) -> None:
        """Forget fragments and their prices, which are remembered."""

    def energy_joules(self, layout: Layout) -> float:
        """The energy of one request."""


@runtime_checkable
class StepCosts(Costs, Protocol):
    """Costs that also tell the parts of a message, so that drafts need no layout to be priced."""

    @property
    def links(self) -> Mapping[tuple[str, str], Link]:
        """Every link as the simulation takes it."""

    @property
    def admit_s(self) -> float:
        """The leader's own seconds per request."""

    def encode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """The seconds of sending a piece beyond the link's, by its bytes in memory."""

    def decode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """The seconds of receiving a piece beyond the link's, by its bytes in memory."""

    def watts_busy(self, device: str) -> float:
        """A device's power while it computes."""

    def busy_s(self, layout: Layout) -> Mapping[str, float]:
        """The seconds that each device computes per request."""
