import numpy as np

from partita.demo.annotate import annotate_photo, find_bands
from partita.plan import Identity, Plan, Shard, Stage
from tests.demo.samples import make_plan, make_result


def test_bands_follow_the_shards_from_top_to_bottom():
    """Owned rows become shares of the photo's height; a device without rows has no band."""
    bands = find_bands(make_plan())
    assert [(band.device, band.start, band.stop) for band in bands] == [
        ("camera", 0.0, 0.4),
        ("box", 0.4, 1.0),
    ]


def test_no_bands_without_division_by_rows():
    """A plan that runs whole on one device has no bands."""
    stage = Stage("all", ("a",), "none", (Shard("camera"),))
    assert find_bands(Plan(Identity("n", "0"), Identity("c", "1"), (stage,), "single")) == []


def test_frame_lies_on_the_corners():
    """The plate's corners are framed in yellow, the rest of the photo stays."""
    result = make_result()
    seen = np.asarray(annotate_photo(result.pixels, result.read))
    assert seen.shape == (96, 192, 3)
    assert seen[42, 80].tolist() == [255, 214, 10]
    assert seen[4, 4].tolist() == [90, 90, 90]


def test_bands_stand_beside_the_photo():
    """With a divided plan the picture grows by a strip with one colour per device."""
    result = make_result()
    seen = np.asarray(annotate_photo(result.pixels, result.read, find_bands(make_plan())))
    assert seen.shape[0] == 96
    assert seen.shape[1] > 192
    assert seen[2, -2].tolist() != seen[-3, -2].tolist()
