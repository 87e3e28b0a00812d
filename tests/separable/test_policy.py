"""Policies, and what they send."""

import pytest

from partita.errors import ModelError
from partita.separable.architecture import Architecture
from partita.separable.policy import (
    Decision,
    Policy,
    count_policies,
    kept_channels,
    silent,
)
from partita.separable.traffic import count_traffic
from tests.separable.policies import FOUND, HALVED, SPARSE

PAPERS = Architecture.parse("4x16d-56", groups=4)


@pytest.mark.parametrize(
    ("policy", "share", "byte_share"),
    [
        (FOUND, 31.48, 30.16),
        (SPARSE, 27.78, 24.40),  # the paper says 27.99, which cannot be computed from its table 6
        (HALVED, 14.44, 14.20),  # the paper cuts off: 14.43
    ],
)
def test_tables_5_and_6(policy: Policy, share: float, byte_share: float) -> None:
    """Communication as the paper counts it, and in bytes."""
    traffic = count_traffic(PAPERS, policy)
    assert round(100 * traffic.share, 2) == share
    assert round(100 * traffic.byte_share, 2) == byte_share


def test_bytes_of_the_found_policy() -> None:
    """The ring's, the policy's, and those that the answer depends on."""
    traffic = count_traffic(PAPERS, FOUND)
    assert traffic.ring_bytes == 15.75 * 2**20
    assert traffic.payload_bytes == 4.75 * 2**20
    # Of the last window's four messages one is read, of the one before two: group 0 alone answers.
    assert traffic.needed_bytes == traffic.payload_bytes - 5 * 64 * 1024


def test_sizes_of_search_spaces() -> None:
    """Section 4.3."""
    deep = Architecture.parse("8x16d-110", groups=4)
    assert count_policies(PAPERS, 2) == 24**9 == 2_641_807_540_224
    assert count_policies(deep, 2) == 24**18
    assert count_policies(PAPERS, 2, sparse=True) == (24 * 9) ** 9


def test_table_4() -> None:
    """Nine levels of 64 channels."""
    block = next(PAPERS.blocks())
    assert [kept_channels(block, level) for level in range(9)] == [32 + 4 * k for k in range(9)]


def test_nothing_is_sent_by_fixed_points() -> None:
    """Neither by one group nor by all."""
    assert silent(PAPERS, 2).exchanges(PAPERS) == []
    (exchange,) = Policy((Decision(1), *[Decision(0)] * 8), 2).exchanges(PAPERS)
    assert (exchange.taken, exchange.added) == (0, 1)
    assert list(exchange.messages()) == [(2, 3), (3, 2)]


@pytest.mark.parametrize("policy", [FOUND, SPARSE, HALVED, FOUND.without(3)])
def test_policies_are_written_and_read(policy: Policy) -> None:
    """As text, which the paper's ids are, and as facts of a file."""
    read = Policy.parse(str(policy), policy.staleness, halves=policy.halves)
    assert read.decisions == policy.decisions
    assert Policy.from_facts(policy.facts()) == policy


def test_the_papers_ids_are_a_policy() -> None:
    """Row 1 of table 6; spaces do not matter."""
    assert str(FOUND) == "12,12,7,9,10,23,9,16,18"
    assert Policy.parse("12, 12,7,9,10,23,9,16,18", 2) == FOUND


@pytest.mark.parametrize("text", ["", "9,", "a", "9:", "-1", "9:x", "1.5", "9;7"])
def test_other_texts_are_no_policy(text: str) -> None:
    """The form is said."""
    with pytest.raises(ModelError, match="expected a permutation's number for each window"):
        Policy.parse(text)


def test_what_no_policy_can_be_is_named() -> None:
    """Windows, counts, levels."""
    with pytest.raises(ModelError, match="staleness = 4: allowed for 6 blocks of a stage are 1, 2"):
        silent(PAPERS, 4)
    with pytest.raises(ModelError, match=r"1 decisions: .* has 9 windows"):
        Policy((Decision(0),), 2).exchanges(PAPERS)
    with pytest.raises(ModelError, match="level 9: allowed are 0 to 8"):
        Decision(0, 9)
