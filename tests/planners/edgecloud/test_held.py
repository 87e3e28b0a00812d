"""What the search counts as memory is what prices count: weights as they are loaded."""

from __future__ import annotations

import pytest

from partita.planners import Evaluator
from partita.planners.edgecloud.quantised_split import EdgeBits, make_problem, quantised_draft
from partita.planners.edgecloud.rivals import list_rivals
from partita.planners.edgecloud.roles import find_roles, split_draft
from partita.planners.edgecloud.split_problem import Split
from tests.planners.edgecloud.test_integer_kernels import WIDE, _cost, _options


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_weights_in_memory_are_those_of_the_price(width: int, *, integer: bool) -> None:
    """Floats hold four bytes for each weight whatever its bits, integer kernels one."""
    cost, options = _cost(10**7), _options(integer=integer)
    evaluator = Evaluator(cost, options)
    roles, order = find_roles(evaluator), evaluator.outline.order
    problem = make_problem(evaluator, roles, EdgeBits(cost.graph, WIDE[1], 8, has_floats=True))
    split = Split.uniform(len(order), width)
    bits = EdgeBits(cost.graph, WIDE[1], 8, has_floats=True).table(order, split)
    quantised, draft = quantised_draft(evaluator, roles, order, bits)
    weights = sum(layer.weight_bytes for layer in quantised.graph.layers)
    use = quantised.cost.memory(quantised.problem.layout(quantised.problem.plan(draft)))["camera"]
    assert use.weights == weights
    assert problem.memory_bits(split) / 8 == pytest.approx(use.total - use.overhead, rel=0.02)
    floats = sum(layer.weight_bytes for layer in cost.graph.layers)
    assert (weights < floats / 3) == integer


def test_the_network_as_it_is_counts_alike() -> None:
    """A row of it beside rows of bits is by the same rule."""
    cost = _cost(10**7)
    evaluator = Evaluator(cost, _options(integer=False))
    roles = find_roles(evaluator)
    exact = split_draft(evaluator, roles, range(len(evaluator.outline)))
    edge = next(one for one in list_rivals(evaluator, roles, exact) if one.kind == "edge")
    use = cost.memory(evaluator.problem.layout(evaluator.problem.plan(exact)))["camera"]
    assert edge.edge_bytes == use.total - use.overhead
