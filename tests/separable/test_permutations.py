"""Permutations by number."""

from itertools import permutations

import pytest

from partita.errors import ModelError
from partita.separable.permutations import count_sends, derangements, number_of, permutation


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5])
def test_numbers_follow_the_order_of_words(groups: int) -> None:
    """Both ways, for all numbers."""
    for number, targets in enumerate(permutations(range(groups))):
        assert permutation(number, groups) == targets
        assert number_of(targets) == number


def test_table_3() -> None:
    """Numbers, derangements and how many groups send."""
    assert permutation(7, 4) == (1, 0, 3, 2)
    assert derangements(4) == [7, 9, 10, 13, 16, 17, 18, 22, 23]
    sends = [count_sends(number, 4) for number in range(24)]
    assert {count: sends.count(count) for count in set(sends)} == {4: 9, 3: 8, 2: 6, 0: 1}


def test_there_are_as_many_as_there_are() -> None:
    """A number beyond the last is named."""
    with pytest.raises(ModelError, match="allowed for 4 groups are 0 to 23"):
        permutation(24, 4)
