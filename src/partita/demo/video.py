"""A drawn video of cars whose plates are known, and what is read on each of its frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx

from partita.demo.cluster import LAB_FILE
from partita.demo.detector import IMAGE_SIZE, Pixels, detector_model
from partita.demo.photo import DrawnPlate, draw_photo
from partita.demo.reader import read_plates
from partita.demo.result import texts_of
from partita.demo.whole import Array
from partita.files import make_folder
from partita.streams.video import import_av

#: Height and width of the scene that the camera pans over. Not tuned.
_SCENE = (540, 960)
_PLATES, _FRAMES_PER_SECOND, _BITS_PER_SECOND = 3, 10, 8_000_000


@dataclass(frozen=True)
class VideoFiles:
    """What a stream needs, and the truth about it.

    Attributes:
        video: Frames of 480 x 640 pixels.
        model: The plate detector.
        cluster: The demo's.
        truth: The texts of the plates that are whole on each frame, from left to right: JSON lines
            with ``name`` and ``plates``.
    """

    video: Path
    model: Path
    cluster: Path
    truth: Path


def write_video_files(folder: Path, frames: int, seed: int = 0) -> VideoFiles:
    """Write a drawn video, the network that finds plates on it, and the demo's cluster.

    Args:
        folder: Made where it is missing; older files of these names are replaced.

    Raises:
        InputError: The package that writes videos is missing.
        ModelError: The package with the trained networks is missing.
        OSError: A file cannot be written.
    """
    made = VideoFiles(
        folder / "plates.mp4", folder / "detector.onnx", folder / LAB_FILE, folder / "drawn.jsonl"
    )
    drawn = list(draw_frames(seed, frames))
    make_folder(folder)
    write_frames(made.video, [pixels for pixels, _ in drawn])
    onnx.save(detector_model(), made.model)
    made.cluster.write_bytes(files("partita.demo").joinpath(LAB_FILE).read_bytes())
    lines = (
        json.dumps({"name": f"{made.video.name}#{number:06d}", "plates": texts_of(plates)})
        for number, (_, plates) in enumerate(drawn)
    )
    made.truth.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def draw_frames(seed: int, frames: int) -> Iterator[tuple[Pixels, list[DrawnPlate]]]:
    """A camera's way from left to right over a street: each frame, and the plates whole on it."""
    scene, plates = draw_photo(seed, plates=_PLATES, size=_SCENE)
    height, width = IMAGE_SIZE
    for way in np.linspace(0, 1, frames):
        left, top = round(way * (_SCENE[1] - width)), round(way * (_SCENE[0] - height))
        whole = [plate for plate in plates if _is_inside(plate, left, top)]
        yield scene[top : top + height, left : left + width], whole


def _is_inside(plate: DrawnPlate, left: int, top: int) -> bool:
    x0, y0, x1, y1 = plate.box
    height, width = IMAGE_SIZE
    return left <= x0 and x1 <= left + width and top <= y0 and y1 <= top + height


def write_frames(path: Path, frames: Sequence[Pixels]) -> None:
    """Write frames of one size as an MPEG-4 video.

    Raises:
        InputError: The package that writes videos is missing.
        OSError: The file cannot be written.
    """
    av = import_av()
    height, width, _ = frames[0].shape
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=_FRAMES_PER_SECOND)
        video.height, video.width, video.pix_fmt = height, width, "yuv420p"
        video.bit_rate = _BITS_PER_SECOND
        for pixels in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode())


def read_frame(pixels: Pixels, outputs: dict[str, Array]) -> list[str]:
    """The texts on a frame, from left to right, by the detector's outputs.

    Raises:
        ModelError: The package with the trained networks is missing.
    """
    return texts_of(read_plates(pixels, outputs))
