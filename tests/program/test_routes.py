"""Shares of requests: the order that replicas take turns in, and how often choices meet."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, cycle, islice
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.program_builder import ProgramBuilder

from partita.program import Program, request_share, share_order

SHARES = st.lists(st.integers(1, 40), min_size=1, max_size=6).map(tuple)


def routed(*shares: tuple[int, ...], routes: tuple[int, ...] = ()) -> Program:
    """A program whose replicated stages have these shares."""
    build = ProgramBuilder(1, routes=routes or tuple(map(len, shares)))
    build.shares = shares
    build.deliver([[build.feed()]])
    return build.build()


@given(SHARES)
def test_shares_are_kept_within_one_request_from_the_start(shares: tuple[int, ...]) -> None:
    """After every request each alternative is less than one from its share; a period is exact."""
    order, total = share_order(shares), sum(shares)
    assert [order.count(alternative) for alternative in range(len(shares))] == list(shares)
    for alternative, share in enumerate(shares):
        taken = accumulate(one == alternative for one in order)
        off = [abs(n - Fraction(share * k, total)) for k, n in enumerate(taken, 1)]
        assert max(off) < 1


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 160), st.integers(0, 79))
def test_two_replicas_keep_their_shares_within_one_in_any_window(
    one: int, other: int, length: int, start: int
) -> None:
    """Wherever one begins to count, also across the end of a period."""
    order = share_order((one, other))
    window = list(islice(cycle(order), start, start + length))
    assert abs(window.count(0) - Fraction(one * length, one + other)) <= 1


def test_equal_shares_take_turns() -> None:
    """The first comes first; larger shares come first among unequal ones."""
    assert share_order((1, 1, 1)) == (0, 1, 2)
    assert share_order((2, 2)) == (0, 1, 0, 1)
    assert share_order((1, 4))[0] == 1
    assert share_order((7,)) == (0,) * 7


@given(SHARES, SHARES, st.data())
def test_choices_of_two_stages_meet_as_often_as_counted(
    one: tuple[int, ...], other: tuple[int, ...], data: st.DataObject
) -> None:
    """Orders run beside each other, so how often two choices meet is no product."""
    chosen = [data.draw(st.integers(0, len(shares) - 1)) for shares in (one, other)]
    period = lcm(sum(one), sum(other))
    pairs = islice(zip(cycle(share_order(one)), cycle(share_order(other)), strict=True), period)
    met = sum(pair == tuple(chosen) for pair in pairs)
    when = tuple(enumerate(chosen))
    assert request_share(routed(one, other), when) == pytest.approx(met / period, abs=1e-12)


def test_equal_shares_of_two_stages_keep_requests_together() -> None:
    """What the first replica of one stage made goes on on the first of the next."""
    program = routed((3, 1), (3, 1))
    assert request_share(program, ((0, 0),)) == 0.75
    assert request_share(program, ((0, 0), (1, 0))) == 0.75
    assert request_share(program, ((0, 0), (1, 1))) == 0


def test_stages_without_shares_count_as_equally_likely() -> None:
    """Beside one with shares, and alone."""
    assert request_share(routed(routes=(4, 2)), ((0, 1), (1, 0))) == 1 / 8
    assert request_share(routed((3, 1), (), routes=(2, 5)), ((0, 1), (1, 4))) == 1 / 20
    assert request_share(routed((3, 1)), ()) == 1
