"""Plate readers: from the photo and a plate's corners to the characters on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from PIL import Image

from partita.demo.detector import OUTPUTS, Detection, Pixels, decode_detections
from partita.demo.package import ALPHABET, LARGE_READER, READER, load_resource
from partita.demo.perspective import Point, Quad, rectangle, warp_image
from partita.engine.session import SessionConfig, open_session

#: Strips 32 pixels tall are what the reader takes; wide ones keep narrow characters apart. The
#: width is a round number, not tuned.
STRIP_SIZE = (200, 32)
#: The detector's corners lie on the rim; a little more is taken so that no character is cut. Not
#: tuned.
MARGIN = 0.03


@dataclass(frozen=True)
class PlateRead:
    """A plate that the detector found, and what the reader read on it."""

    text: str
    detection: Detection


@dataclass(frozen=True)
class Reader:
    """A network that reads one line: scores of classes by position, 1 x positions x classes.

    Class 0 separates characters; class n is the n-th character of the alphabet.

    Attributes:
        file: In one of the packages with trained networks.
        strip_size: Width and height of what it takes, pixels, as float32 of 1 x 3 x height x width
            in BGR order, -1 to 1.
    """

    name: str
    file: str
    strip_size: tuple[int, int]

    def model(self) -> onnx.ModelProto:
        """The trained network.

        Raises:
            ModelError: The package with it is missing.
        """
        return onnx.load_from_string(load_resource(self.file))

    def join(self, classes: npt.NDArray[np.integer]) -> str:
        """The text of one strip, by the likeliest class at each position: repeats are one.

        Raises:
            ModelError: The package with the trained network is missing.
        """
        return join_characters(classes, _load_alphabet(self.file))


#: The one made for plates.
PLATE_READER = Reader("plate-reader", READER, STRIP_SIZE)
#: One of any text, four times as large. The width keeps a plate's proportions; not tuned.
TEXT_READER = Reader("text-reader", LARGE_READER, (152, 48))


def reader_model() -> onnx.ModelProto:
    """The trained plate reader.

    Raises:
        ModelError: The package with the trained network is missing.
    """
    return PLATE_READER.model()


def read_plates(pixels: Pixels, outputs: Mapping[str, npt.NDArray[Any]]) -> tuple[PlateRead, ...]:
    """The plates that the detector's outputs mean, with their texts, from left to right.

    Args:
        pixels: The photo, uint8 of height x width x 3 in RGB order.
        outputs: ``loc``, ``conf`` and ``landms`` of this photo by name.

    Raises:
        ModelError: The package with the trained network is missing.
    """
    detections = decode_detections(
        [outputs[name] for name in OUTPUTS], size=(pixels.shape[0], pixels.shape[1])
    )
    return tuple(PlateRead(read_plate(pixels, detection), detection) for detection in detections)


def read_plate(pixels: Pixels, detection: Detection) -> str:
    """The characters on one plate of a photo.

    Args:
        pixels: The photo, uint8 of height x width x 3 in RGB order.

    Raises:
        ModelError: The package with the trained network is missing.
    """
    strip = strip_to_input(cut_plate(pixels, detection))
    session = _open_session()
    (scores,) = session.run(None, {session.get_inputs()[0].name: strip})
    return join_characters(scores[0].argmax(axis=1))


def cut_plate(pixels: Pixels, detection: Detection) -> Pixels:
    """The plate as seen from straight ahead, uint8 of 32 x 200 x 3."""
    image = Image.fromarray(pixels)
    strip = warp_image(image, _widen(detection.corners), rectangle(*STRIP_SIZE), STRIP_SIZE)
    return np.asarray(strip)


def strip_to_input(strip: Pixels) -> npt.NDArray[np.float32]:
    """A strip as the reader's input, float32 of 1 x 3 x 32 x 200 in BGR order, -1 to 1."""
    bgr = strip[:, :, ::-1].astype(np.float32).transpose(2, 0, 1)[None]
    return (bgr / np.float32(255) - np.float32(0.5)) / np.float32(0.5)


def join_characters(classes: npt.NDArray[np.integer], alphabet: Sequence[str] | None = None) -> str:
    """The text of one strip: repeats are one character, class 0 separates.

    Args:
        classes: The likeliest class at each position; class n > 0 is the alphabet's n-th character.
        alphabet: That of plates if None.
    """
    characters = alphabet or _load_alphabet(READER)
    fresh = np.append(True, classes[1:] != classes[:-1])
    return "".join(characters[index - 1] for index in classes[fresh] if index > 0)


def _widen(corners: Quad) -> Quad:
    middle_x = sum(x for x, _ in corners) / 4
    middle_y = sum(y for _, y in corners) / 4

    def outwards(point: Point) -> Point:
        x, y = point
        return x + (x - middle_x) * 2 * MARGIN, y + (y - middle_y) * 2 * MARGIN

    a, b, c, d = (outwards(point) for point in corners)
    return a, b, c, d


@lru_cache(maxsize=1)
def _open_session() -> Any:
    return open_session(load_resource(READER), SessionConfig(threads=1, integer_kernels=True))


@lru_cache(maxsize=2)
def _load_alphabet(reader: str) -> tuple[str, ...]:
    """The characters that a reader's classes mean: a file beside it, or lines within it."""
    if reader == READER:
        return tuple(load_resource(ALPHABET).decode("utf-8").split())
    notes = {
        note.key: note.value for note in onnx.load_from_string(load_resource(reader)).metadata_props
    }
    return (*notes["character"].splitlines(), " ")
