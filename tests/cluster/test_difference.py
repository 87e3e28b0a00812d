"""What is said of two clusters of which a plan fits only one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partita.cluster import UNMEASURED, Cluster, Device, Link, list_differences

PAIR = Cluster.of(["a", "b"], links=[Link("a", "b", 1e6), Link("b", "a", 1e6)])
OTHERS = {
    "a kind": (
        replace(PAIR, devices=(Device("a"), Device("b", kind=UNMEASURED))),
        ["device 'b' was of kind 'this-machine', is of kind 'unmeasured'"],
    ),
    "a device": (
        PAIR.without("b"),
        [
            "device 'b' was of kind 'this-machine', is missing",
            "link 'a → b' was there, is missing",
            "link 'b → a' was there, is missing",
        ],
    ),
    "a link": (
        replace(PAIR, links=(PAIR.links[0], replace(PAIR.links[1], medium="radio"))),
        ["link 'b → a' was there, is on medium 'radio'"],
    ),
    "who asks": (replace(PAIR, requester="b"), ["the requester was 'a', is 'b'"]),
    "a measured rate": (PAIR.with_bandwidth({("a", "b"): 2e6}), []),
}


@pytest.mark.parametrize(("other", "words"), OTHERS.values(), ids=OTHERS)
def test_differences_are_said_where_the_hash_differs(other: Cluster, words: list[str]) -> None:
    """Each part of the structure is named; what is measured is none."""
    assert list_differences(PAIR, other) == words
    assert (PAIR.hash == other.hash) == (not words)
