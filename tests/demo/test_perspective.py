import numpy as np
import pytest
from PIL import Image

from partita.demo.perspective import find_homography, rectangle, warp_image


def map_points(matrix, points):
    """The image of each point under the map."""
    homogeneous = np.column_stack([np.array(points), np.ones(len(points))]) @ matrix.T
    return homogeneous[:, :2] / homogeneous[:, 2:]


QUAD = ((10.0, 12.0), (50.0, 8.0), (54.0, 30.0), (9.0, 28.0))


def test_corners_go_to_corners():
    """The map takes each corner to its partner, and the map back takes it home."""
    there = find_homography(rectangle(40, 20), QUAD)
    back = find_homography(QUAD, rectangle(40, 20))
    assert np.allclose(map_points(there, rectangle(40, 20)), QUAD)
    assert np.allclose(map_points(back, QUAD), rectangle(40, 20))


def test_warp_shows_the_inside_only():
    """A white rectangle lands inside the four corners and nowhere else."""
    seen = np.asarray(warp_image(Image.new("L", (40, 20), 255), rectangle(40, 20), QUAD, (64, 40)))
    assert seen[20, 30] == 255
    assert seen[2, 2] == 0
    assert seen[38, 60] == 0


def test_corners_on_one_line():
    """Corners that span no area are refused."""
    flat = ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
    with pytest.raises(ValueError, match="four-sided"):
        find_homography(flat, rectangle(4, 4))
