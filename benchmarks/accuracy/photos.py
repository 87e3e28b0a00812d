"""Natural photos that lie in packages, and crops of them drawn from a seed.

Photos that ranges are found on give no crops to judge by: samples and judged data are disjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks.accuracy.packages import FACE_API, FOOLBOX, SKIMAGE, fetch

Pixels = npt.NDArray[np.uint8]

#: Of scikit-image those that show things, not textures, text or cells.
_SKIMAGE = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "motorcycle_left.png",
            "rocket.jpg")  # fmt: skip
#: Photos for samples, by file name.
_FOR_SAMPLES = {"camera.png", "chelsea.png", "motorcycle_left.png", "sample2.jpg", "sample4.jpg",
                "sample6.jpg"}  # fmt: skip
#: Least side of a crop, as a part of the photo's shorter side.
_LEAST_SIDE = 0.4


def sample_photos(cache: Path) -> list[Image.Image]:
    """Photos that ranges are found on: six of twelve that bear no label."""
    return [image for name, image in _plain_photos(cache) if name in _FOR_SAMPLES]


def judged_photos(cache: Path) -> list[Image.Image]:
    """Photos that accuracy is judged by: the other six, and the labelled ones."""
    plain = [image for name, image in _plain_photos(cache) if name not in _FOR_SAMPLES]
    return [*plain, *(image for image, _ in labelled_photos(cache))]


def labelled_photos(cache: Path) -> list[tuple[Image.Image, int]]:
    """Twenty pictures of ImageNet with their classes, which their names tell."""
    folder = fetch(FOOLBOX, cache) / "foolbox" / "data"
    paths = sorted(folder.glob("imagenet_*.jpg"))
    return [(_open(path), int(path.stem.rpartition("_")[2])) for path in paths]


def draw_crops(photos: Sequence[Image.Image], each: int, size: int, *, seed: int) -> list[Pixels]:
    """Square crops, uint8 of size x size x 3 in RGB order, of so many from each photo.

    Sides are drawn evenly from two fifths to all of the photo's shorter side.
    """
    random = np.random.default_rng(seed)
    crops = []
    for photo in photos:
        for _ in range(each):
            side = int(min(photo.size) * random.uniform(_LEAST_SIDE, 1.0))
            left, top = (int(random.integers(0, extent - side + 1)) for extent in photo.size)
            box = (left, top, left + side, top + side)
            crops.append(np.asarray(photo.resize((size, size), Image.Resampling.BICUBIC, box)))
    return crops


def crop_centre(photo: Image.Image, size: int, *, share: float = 224 / 256) -> Pixels:
    """The middle of a photo, uint8 of size x size x 3: the usual part of its shorter side."""
    side = min(photo.size) * share
    left, top = ((extent - side) / 2 for extent in photo.size)
    box = (left, top, left + side, top + side)
    return np.asarray(photo.resize((size, size), Image.Resampling.BICUBIC, box))


def _plain_photos(cache: Path) -> list[tuple[str, Image.Image]]:
    skimage = fetch(SKIMAGE, cache) / "skimage" / "data"
    people = fetch(FACE_API, cache) / "package" / "demo"
    paths = [*(skimage / name for name in _SKIMAGE), *sorted(people.glob("sample?.jpg"))]
    return [(path.name, _open(path)) for path in paths]


def _open(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")
