"""Linear programs over shares: which device computes how much of each layer, and receives what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from partita.planners.bounds.minimum_costs import MinimumCosts, peak_bytes_per_s
from partita.planners.pricing.evaluator import Evaluator

#: A column of a program: what it says of what.
Column = tuple[object, ...]
Row = dict[Column, float]
#: Rounding may not lift a bound above the optimum.
SAFE = 1 - 1e-7
#: The solver's word for it.
_INFEASIBLE = 2


class ShareProgram:
    """Columns named by tuples, rows that hold them to limits, and what all programs say.

    Columns ``("share", device, layer)`` are the part of a layer that a device computes, and
    ``("received", device, tensor)`` the part of a tensor that came to it; devices are numbers.

    Args:
        floors: The least costs, with the names of the devices.
        chosen: The devices that take part.
    """

    def __init__(self, floors: MinimumCosts, chosen: Sequence[int]) -> None:
        self.floors = floors
        self.evaluator: Evaluator = floors.evaluator
        self.graph = self.evaluator.graph
        self.chosen = chosen
        self.layers = [layer.name for layer in self.graph.layers]
        made = [tensor for layer in self.graph.layers for tensor in layer.outputs]
        self.tensors = tuple(dict.fromkeys([*self.graph.inputs, *made]))
        self.columns: dict[Column, int] = {}
        self.rows: list[dict[int, float]] = []
        self.limits: list[float] = []

    def add(self, row: Row, limit: float) -> None:
        """Hold a sum of columns to a limit from above."""
        columns = self.columns
        numbered = {columns.setdefault(key, len(columns)): value for key, value in row.items()}
        self.rows.append(numbered)
        self.limits.append(limit)

    def add_layers(self) -> None:
        """All that is needed of each layer is computed somewhere."""
        for layer in self.layers:
            row: Row = {("share", d, layer): -1.0 for d in self.chosen}
            self.add(row, -self.floors.required[layer])

    def compute_row(self, device: int) -> Row:
        """The seconds that a device computes."""
        return {
            ("share", device, layer): self.floors.layer_s[layer][device] for layer in self.layers
        }

    def add_readers(self, device: int) -> None:
        """What a device reads it has computed or received; the requester has the inputs."""
        is_home = self.name(device) == self.evaluator.requester
        for tensor in self.tensors:
            if is_home and tensor in self.graph.inputs:
                continue
            producer = self.graph.producer(tensor)
            own: Row = {("received", device, tensor): -1.0}
            if producer is not None:
                own["share", device, producer.name] = -1.0
            for reader in self.graph.readers(tensor):
                part = self.floors.needed_share(reader, tensor)
                if part > 0:
                    self.add({("share", device, reader.name): part, **own}, 0.0)
            if is_home and tensor in self.graph.outputs:
                self.add(own, -1.0)

    def input_seconds(self, device: int) -> Iterator[tuple[str, float]]:
        """Per layer that reads an input: the seconds on the one link that the whole layer's takes.

        Nothing where the device has the inputs; what no link brings it does not compute.
        """
        name, home = self.name(device), self.evaluator.requester
        if name == home:
            return
        link = self.evaluator.cluster.link(home, name)
        for tensor in self.graph.inputs:
            for reader in self.graph.readers(tensor):
                if link is None or tensor in self.evaluator.options.keep_on:
                    self.add({("share", device, reader.name): 1.0}, 0.0)
                    continue
                part = self.floors.needed_share(reader, tensor)
                yield reader.name, part * self.size_bytes(tensor) / peak_bytes_per_s(link)

    def name(self, device: int) -> str:
        """A device's name."""
        return self.floors.devices[device]

    def size_bytes(self, tensor: str) -> int:
        """The least bytes that travel of a tensor."""
        return least_size_bytes(self.evaluator, tensor)

    def minimize(self, column: Column) -> float:
        """The least value of a column; infinite where no shares are possible, 0 if not solved.

        Nor where the time for bounds ends before the solver does.
        """
        entries = [(r, c, v) for r, row in enumerate(self.rows) for c, v in row.items()]
        values = [entry[2] for entry in entries]
        places = ([entry[0] for entry in entries], [entry[1] for entry in entries])
        upper = coo_matrix((values, places), shape=(len(self.rows), len(self.columns)))
        objective = np.zeros(len(self.columns))
        objective[self.columns[column]] = 1.0
        limit_s = max(0.0, self.evaluator.budget.left_for_bounds_s)
        solved = linprog(
            objective,
            A_ub=upper.tocsr(),
            b_ub=self.limits,
            method="highs",
            options={"time_limit": limit_s} if limit_s < inf else {},
        )
        unsolved = inf if solved.status == _INFEASIBLE else 0.0
        return float(solved.fun) if solved.status == 0 else unsolved


def least_size_bytes(evaluator: Evaluator, tensor: str) -> int:
    """The size of a tensor, or of the least that its core makes where that is less."""
    graph, size = evaluator.graph, evaluator.problem.wire_bytes(tensor)
    producer = graph.producer(tensor)
    if producer is None or producer.barrier:
        return size
    core = graph.nodes[producer.nodes[0]]
    return min(size, *(graph.size_bytes(name) for name in core.outputs if name))
