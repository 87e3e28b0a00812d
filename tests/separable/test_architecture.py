"""Counts of the paper's networks."""

import pytest

from partita.errors import ModelError
from partita.separable.architecture import Architecture


@pytest.mark.parametrize(
    ("name", "groups", "classes", "parameters"),
    [
        ("8x16d-56", 1, 100, 4_394_676),  # table 1
        ("8x16d-56", 4, 100, 4_539_444),
        ("8x16d-56", 1, 10, 4_371_546),
        ("8x16d-56", 4, 10, 4_516_314),
    ],
)
def test_the_papers_networks_have_its_counts(
    name: str, groups: int, classes: int, parameters: int
) -> None:
    """Table 1, and the same with ten classes."""
    architecture = Architecture.parse(name, groups=groups, classes=classes)
    assert architecture.count_parameters() == parameters


def test_a_block_does_the_same_work_in_every_stage() -> None:
    """Behind the first block of a stage; figure 5 is drawn with this number."""
    architecture = Architecture.parse("4x16d-56", groups=4)
    macs = {block.count_macs() for block in architecture.blocks() if not block.projects}
    assert macs == {4_456_448}


@pytest.mark.parametrize(
    ("name", "groups", "problem"),
    [
        ("8x16d", 1, "expected the form 8x16d-56"),
        ("8x16d-57", 1, "depth = 57"),
        ("8x16d-2", 1, "depth = 2"),
        ("8x16d-56", 3, "groups = 3: allowed for 8 paths are 1, 2, 4, 8"),
        ("8x16d-56", 0, "groups = 0"),
        ("0x16d-56", 1, "cardinality = 0"),
        ("1x20000d-11", 1, "width = 20000: allowed are whole numbers from 1 to 10,000"),
        ("200x200d-11", 1, "200 paths of 200 channels: allowed are 10,000 channels in all"),
    ],
)
def test_numbers_out_of_range_are_named(name: str, groups: int, problem: str) -> None:
    """Each says what is allowed."""
    with pytest.raises(ModelError, match=problem):
        Architecture.parse(name, groups=groups)


def test_an_image_must_have_some_extent() -> None:
    """Two stages halve it."""
    with pytest.raises(ModelError, match="image = 3x2x32"):
        Architecture.parse("8x16d-56", image=(3, 2, 32))
