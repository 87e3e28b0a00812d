"""Bits that cross cuts and lie in memory, and the cuts worth looking at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import pytest

from partita.graph import load_graph
from partita.planners.edgecloud.network import Network, candidate_cuts, network_of
from partita.reproduce.autosplit.numbering import weighted_groups
from partita.zoo import build_model
from tests.planners.edgecloud.cases import draw_network
from tests.planners.fakes import make_gated, make_residual


@cache
def _resnet50() -> tuple[Network, list[int]]:
    """Return the network with the cut after each layer with weights, as the paper numbers them."""
    graph = load_graph(build_model("resnet50"))
    groups = weighted_groups(graph)
    network = network_of(graph, [name for group in groups for name in group])
    cuts, done = [], 0
    for group in groups:
        done += len(group)
        cuts.append(done)
    return network, cuts


def _valid(bits: int) -> list[int]:
    """Return the paper's numbers of the layers of ResNet-50 after which a cut is worth a look."""
    network, cuts = _resnet50()
    known = set(candidate_cuts(network, bits))
    return [number for number, cut in enumerate(cuts) if cut in known]


@pytest.mark.slow
def test_resnet50_has_four_cuts_of_one_small_tensor() -> None:
    """AUTO-SPLIT, Table 10: the layers 46, 49, 52 and 53, with their volumes."""
    network, cuts = _resnet50()
    assert len(cuts) == 54
    whole = network.sizes[0]
    single = {
        number: sum(network.sizes[t] for t in made)
        for number, cut in enumerate(cuts)
        for made in [network.crossing[cut] or (len(network.sizes) - 1,)]
        if len(made) == 1 and network.sizes[made[0]] <= whole
    }
    assert single == {46: 100_352, 49: 100_352, 52: 100_352, 53: 1000}
    assert whole == 150_528


@pytest.mark.slow
def test_resnet50_has_as_many_cuts_as_the_paper_allows() -> None:
    """Equation 6 with live tensors and an input of 8 bits, by the edge's narrowest width."""
    assert _valid(8) == list(range(45, 54))
    assert [len(_valid(bits)) for bits in (6, 4)] == [16, 29]
    assert _valid(2) == [0, 1, 2, *range(13, 54)]


@pytest.mark.slow
def test_resnet50_has_the_weights_of_the_paper() -> None:
    """Table 2: 50 and 12.5 MB at 16 and 4 bits with the largest tensor."""
    network, _ = _resnet50()
    assert sum(network.weights) == 25_502_912
    assert (
        max(s for s, maker in zip(network.sizes, network.makers, strict=True) if maker >= 0)
        == 802_816
    )


@pytest.mark.parametrize("seed", range(20))
def test_candidates_are_all_cuts_that_pass_both_tests(seed: int) -> None:
    """Nothing else is left out, and all in the cloud is always there."""
    rng = Random(seed)
    network = draw_network(rng, rng.randint(1, 6))
    room = rng.choice((float("inf"), 1000.0, 0.0))
    count = len(network.layers)
    expected = [0]
    for cut in range(1, count + 1):
        sent = sum(
            network.sizes[t] * (2 if network.makers[t] >= 0 else 8) for t in network.crossing[cut]
        )
        weights = 2 * sum(network.weights[:cut])
        largest = max(
            sum(network.sizes[t] * (2 if network.makers[t] >= 0 else 8) for t in tensors)
            for tensors in network.working[:cut]
        )
        if sent <= 8 * network.sizes[0] and weights + largest <= room:
            expected.append(cut)
    assert list(candidate_cuts(network, 2, memory_bits=room)) == expected


def _bits(network: Network, tensors: Sequence[int], widths: Sequence[int]) -> int:
    return sum(
        network.sizes[t] * (8 if network.makers[t] < 0 else widths[network.makers[t]])
        for t in tensors
    )


@pytest.mark.parametrize("seed", range(20))
def test_working_sets_that_lie_in_others_are_left_out(seed: int) -> None:
    """The largest set of the matrix is the largest of all, whatever the widths."""
    rng = Random(seed)
    network = draw_network(rng, rng.randint(1, 6))
    cut = rng.randint(1, len(network.layers))
    elements, fixed = network.working_elements(cut)
    for _ in range(5):
        widths = [rng.choice((2, 4, 8)) for _ in range(cut)]
        expected = max(_bits(network, tensors, widths) for tensors in network.working[:cut])
        assert (elements @ widths + fixed).max() == expected
        assert network.memory_bits(cut, [0] * cut, widths) == expected


def test_a_skip_crosses_beside_what_is_made() -> None:
    """Of a residual network both tensors cross, and the answer, which the edge wants, does not."""
    network = network_of(make_residual(0))
    assert max(map(len, network.crossing)) >= 1
    assert network.crossing[-1] == ()
    assert network.crossing[0] == (0,)


def test_a_gate_holds_the_tensor_that_it_scales() -> None:
    """While squeeze and excitation run, the tensor beside them is in memory."""
    graph = make_gated()
    network = network_of(graph)
    place = network.layers.index("up")
    gated = graph.layer(next(name for name in network.layers if name.startswith("c0"))).outputs[0]
    numbers = [*graph.inputs, *(t for layer in graph.layers for t in layer.outputs)]
    assert numbers.index(gated) in network.working[place]
