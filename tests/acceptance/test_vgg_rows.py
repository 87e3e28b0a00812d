"""VGG-16 divided by rows: intervals, recomputed work and exchanged halo, as published or derived.

The numbers are those of the DistrEdge paper's VGG-16 (convolutions and pools at 224 x 224), its
receptive-field recursion of equations 1 and 2, and exact intervals where padding is counted.
"""

from __future__ import annotations

import pytest
from tests.acceptance.vgg import (
    divide_rows,
    input_rows,
    vgg16_features,
    volumes_ending_at,
)

from partita.compile import account_layout

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("rows", "expected"),
    [((3, 4), (6, 218)), ((0, 2), (0, 154)), ((0, 1), (0, 122)), ((4, 6), (38, 224))],
)
def test_rows_of_the_last_pool(rows: tuple[int, int], expected: tuple[int, int]) -> None:
    """Rows of the last pool come from exactly these rows of the image, padding left out."""
    assert input_rows(vgg16_features(), rows) == expected


@pytest.mark.parametrize(("count", "expected"), [(1, 212), (2, 244), (4, 308), (7, 404)])
def test_receptive_field_without_borders(count: int, expected: int) -> None:
    """Far from any border rows of the last pool come from as many rows as the recursion says."""
    start, stop = input_rows(vgg16_features(1120), (15, 15 + count))
    assert stop - start == expected


def test_work_of_the_whole() -> None:
    """The convolutions take 15,346,630,656 multiply-accumulates."""
    assert vgg16_features().macs == 15_346_630_656


@pytest.mark.parametrize(("parts", "ratio"), [(2, 1.5974), (7, 4.1694)])
def test_one_volume(parts: int, ratio: float) -> None:
    """All layers fused in one volume: nothing is exchanged, much is computed again."""
    graph = vgg16_features()
    layout = divide_rows(graph, [[layer.name for layer in graph.layers]], parts)
    assert round(account_layout(graph, layout).macs / graph.macs, 4) == ratio
    assert account_layout(graph, layout).exchanged_elements == 0


def test_a_volume_per_convolution() -> None:
    """Each convolution with its pool a volume: nothing is computed again, 258,048 exchanged."""
    graph = vgg16_features()
    volumes = volumes_ending_at(graph, "Conv")
    layout = divide_rows(graph, volumes, 2)
    assert len(volumes) == 13
    assert account_layout(graph, layout).macs == graph.macs
    assert account_layout(graph, layout).exchanged_elements == 258_048


def test_a_volume_per_pool() -> None:
    """Five volumes that end at pools: 4 % computed again, 157,696 elements exchanged."""
    graph = vgg16_features()
    volumes = volumes_ending_at(graph, "MaxPool")
    layout = divide_rows(graph, volumes, 2)
    assert len(volumes) == 5
    assert round(account_layout(graph, layout).macs / graph.macs, 4) == 1.0399
    assert account_layout(graph, layout).exchanged_elements == 157_696


def test_a_volume_per_layer() -> None:
    """Eighteen volumes, pools apart: 265,216 elements exchanged."""
    graph = vgg16_features()
    layout = divide_rows(graph, [[layer.name] for layer in graph.layers], 2)
    assert account_layout(graph, layout).exchanged_elements == 265_216
