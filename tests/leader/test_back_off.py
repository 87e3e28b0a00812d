"""How long a device that comes and goes must have been there before it is used."""

from __future__ import annotations

import pytest

from partita.leader.back_off import BackOff


def flap(back_off: BackOff, times: int, stay_s: float) -> list[float]:
    """The wait after each of some losses, ``stay_s`` after the device was used again."""
    waits, now_s = [], 0.0
    for _ in range(times):
        back_off.use("d1", now_s)
        now_s += stay_s
        back_off.lose("d1", now_s)
        waits.append(back_off.wait_s("d1"))
    return waits


def test_a_device_that_is_lost_once_is_used_again_at_once() -> None:
    """So is one that was lost after it had been used for long, again and again."""
    back_off = BackOff()
    back_off.lose("d1", 5.0)
    assert back_off.wait_s("d1") == 0
    assert flap(back_off, 3, stay_s=60.0) == [0, 0, 0]


def test_the_wait_grows_with_each_flap_up_to_a_limit() -> None:
    """It doubles; of another device nothing is thought."""
    back_off = BackOff()
    waits = flap(back_off, 10, stay_s=3.0)
    assert waits[:4] == [2, 4, 8, 16]
    assert waits[-1] == 300
    assert back_off.wait_s("d2") == 0


@pytest.mark.parametrize(("stay_s", "wait_s"), [(31.0, 32), (33.0, 0)])
def test_who_stays_for_long_is_trusted_again(stay_s: float, wait_s: float) -> None:
    """For as long as twice its last wait."""
    back_off = BackOff()
    assert flap(back_off, 4, stay_s=3.0)[-1] == 16
    assert flap(back_off, 1, stay_s=stay_s) == [wait_s]


def test_a_device_that_is_lost_before_it_was_used_again_flaps_no_more_for_it() -> None:
    """Its comings and goings while it waits change nothing."""
    back_off = BackOff()
    flap(back_off, 2, stay_s=3.0)
    for now_s in (10.0, 11.0):
        back_off.lose("d1", now_s)
    assert back_off.wait_s("d1") == 4
