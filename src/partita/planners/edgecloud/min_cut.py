"""Which layers an edge and a cloud compute, by sums of seconds: a minimum cut of a graph.

Source: Hu et al., DADS (2019), and Zhang et al., QDMP (2020), as AUTO-SPLIT, section 2.2, tells of
them. Both find the least cut; QDMP's way over cut vertices only finds it sooner.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

import networkx as nx
import numpy as np
from networkx.algorithms.flow import build_residual_network, preflow_push

#: Seconds are counted in whole units of these for the flow, which is exact on whole numbers only.
_UNIT_S = 1e-12
_EDGE, _CLOUD = "edge", "cloud"


@dataclass(frozen=True)
class SharedTensor:
    """A tensor that the edge sends once, however many layers in the cloud read it.

    Attributes:
        maker: Position of the layer that makes it; -1 for what the edge has from the start.
        readers: Positions of the layers that read it.
        send_s: Seconds from the edge to the cloud.
    """

    maker: int
    readers: tuple[int, ...]
    send_s: float


@dataclass(frozen=True)
class TwoSides:
    """What layers cost on either side. Nothing but the answer goes back to the edge.

    Attributes:
        edge_s: Seconds of each layer on the edge; infinite where it must not be.
        cloud_s: Seconds of each layer in the cloud, its answers' way back among them.
        tensors: What layers read.
        edge_start_s: Paid once where the edge computes any layer.
        cloud_start_s: Paid once where the cloud does.
    """

    edge_s: Sequence[float]
    cloud_s: Sequence[float]
    tensors: Sequence[SharedTensor]
    edge_start_s: float = 0.0
    cloud_start_s: float = 0.0

    def seconds(self, edge: Collection[int]) -> float:
        """The sum of all seconds where these layers are on the edge; infinite if it cannot be."""
        total = self.edge_start_s if edge else 0.0
        total += self.cloud_start_s if len(edge) < len(self.edge_s) else 0.0
        for position, (here_s, there_s) in enumerate(zip(self.edge_s, self.cloud_s, strict=True)):
            total += here_s if position in edge else there_s
        for tensor in self.tensors:
            is_made_here = tensor.maker < 0 or tensor.maker in edge
            if not is_made_here and any(reader in edge for reader in tensor.readers):
                return inf
            if is_made_here and any(reader not in edge for reader in tensor.readers):
                total += tensor.send_s
        return total

    def prefix_s(self) -> list[float]:
        """The seconds of every prefix of the order on the edge, from no layer to all."""
        here_s = np.concatenate([[0.0], np.cumsum(self.edge_s)])
        there_s = np.concatenate([np.cumsum(self.cloud_s[::-1])[::-1], [0.0]])
        total_s = here_s + there_s
        total_s[1:] += self.edge_start_s
        total_s[:-1] += self.cloud_start_s
        for tensor in self.tensors:
            total_s[tensor.maker + 1 : max(tensor.readers) + 1] += tensor.send_s
        return [float(seconds) for seconds in total_s]


def least_cut(sides: TwoSides) -> frozenset[int] | None:
    """The layers on the edge for which the sum of all seconds is least, the fewest among equals.

    None where no sum is finite.
    """
    network = _flow_network(sides)
    residual = build_residual_network(network, "capacity")
    try:
        # From the cloud to the edge: the second side is then all that reaches the edge, no more.
        _, (_, edge) = nx.minimum_cut(
            network, _CLOUD, _EDGE, flow_func=preflow_push, residual=residual
        )
    except nx.NetworkXUnbounded:
        return None
    finally:
        for graph in (network, residual):
            graph.clear()  # NetworkX's graphs are circles: a leader would be full of them for long
    return frozenset(node for node in edge if isinstance(node, int))


def _flow_network(sides: TwoSides) -> nx.DiGraph:
    """Arcs from the cloud to the edge: those that a cut severs are what it costs.

    Arcs without a capacity cannot be severed: they forbid data to flow from the cloud to the edge,
    and make a node of each tensor, so that it is paid for once.
    """
    network = nx.DiGraph()
    network.add_nodes_from((_CLOUD, _EDGE))
    for position, (edge_s, cloud_s) in enumerate(zip(sides.edge_s, sides.cloud_s, strict=True)):
        _add_arc(network, _CLOUD, position, edge_s)
        _add_arc(network, position, _EDGE, cloud_s)
    for number, tensor in enumerate(sides.tensors):
        maker, sent = (_EDGE if tensor.maker < 0 else tensor.maker), ("sent", number)
        _add_arc(network, sent, maker, tensor.send_s)
        for reader in tensor.readers:
            network.add_edge(reader, sent)
            if maker != _EDGE:
                network.add_edge(maker, reader)
    for position in range(len(sides.edge_s)):
        network.add_edge(position, "cloud starts")
        network.add_edge("edge starts", position)
    _add_arc(network, "cloud starts", _EDGE, sides.cloud_start_s)
    _add_arc(network, _CLOUD, "edge starts", sides.edge_start_s)
    return network


def _add_arc(network: nx.DiGraph, source: object, target: object, seconds: float) -> None:
    if seconds < inf:
        network.add_edge(source, target, capacity=round(seconds / _UNIT_S))
    else:
        network.add_edge(source, target)
