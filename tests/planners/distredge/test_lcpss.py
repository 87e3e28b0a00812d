"""LC-PSS: how many volumes, and where."""

from __future__ import annotations

import pytest

from partita.planners import LayerOrder
from partita.planners.distredge.lcpss import PartitionOptions, find_partition
from partita.planners.distredge.places import find_runs
from tests.planners.distredge.vgg import LAYERS, vgg16
from tests.planners.fakes import make_chain, make_gated, make_residual

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_more_weight_on_transmission_makes_fewer_volumes(seed: int) -> None:
    """VGG-16, four providers: 14 volumes for alpha 0 and 2 for alpha 1, never more in between.

    The paper (section V-C) reports 16 and 2; 14 is one volume per convolution, because a pool after
    a convolution costs no rows twice, and the last layer.
    """
    counts = [
        len(find_partition(vgg16(), PartitionOptions(4, alpha=alpha, seed=seed)).volumes)
        for alpha in ALPHAS
    ]
    assert counts[0] == 14
    assert counts[-1] == 2
    assert counts == sorted(counts, reverse=True)
    assert 2 < counts[3] < 14


def test_raw_scores_make_alpha_useless() -> None:
    """Operations without a unit outweigh elements: three quarters for the latter change little."""
    options = PartitionOptions(4, alpha=0.5, scores="raw", seed=1)
    assert len(find_partition(vgg16(), options).volumes) == 14
    assert len(find_partition(vgg16(), PartitionOptions(4, alpha=0.5, seed=1)).volumes) < 10


def test_volumes_cover_all_layers_with_rows_once() -> None:
    """Volumes follow each other from the first layer to the last pool, which is one of its own."""
    found = find_partition(vgg16(), PartitionOptions(16, seed=2))
    assert found.volumes[0].start == 0
    assert found.volumes[-1] == type(found.volumes[0])(LAYERS - 1, LAYERS)
    stops = [volume.stop for volume in found.volumes]
    assert [volume.start for volume in found.volumes[1:]] == stops[:-1]
    assert found.evaluations <= LAYERS * (LAYERS + 1) // 2
    assert found.account.operations >= 15_346_630_656
    again = find_partition(vgg16(), PartitionOptions(16, seed=2))
    assert again == found


def test_blocks_with_branches_stay_together() -> None:
    """No volume starts between a residual sum and the convolution whose input it also reads."""
    outline = LayerOrder(make_residual(1))
    (run,) = find_runs(outline)
    assert run.places == (1,)
    assert len(find_partition(outline, PartitionOptions(2, alpha=0.0)).volumes) == 2


def test_means_over_space_end_volumes() -> None:
    """Squeeze and excitation divides the layers with rows in two runs, each with volumes."""
    outline = LayerOrder(make_gated())
    runs = find_runs(outline)
    volumes = find_partition(outline, PartitionOptions(3)).volumes
    assert len(runs) == 2
    assert {run.start for run in runs} <= {volume.start for volume in volumes}


def test_one_device_or_one_layer_is_no_trouble() -> None:
    """With nothing to divide among, and nothing to cut, there is one volume at least."""
    outline = LayerOrder(make_chain(1))
    assert len(find_partition(outline, PartitionOptions(1)).volumes) == 1
    assert find_partition(LayerOrder(make_chain(3)), PartitionOptions(1, alpha=1.0)).volumes
