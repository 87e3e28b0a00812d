"""Number plates: the trained detector and reader in fewer bits, on photos drawn from seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.comparison import SETTINGS, leave_fragile, quantise
from benchmarks.harness import Row, say, shown
from partita.demo.conditions import VARIED
from partita.demo.detector import (
    IMAGE_INPUT,
    OUTPUTS,
    Detection,
    Pixels,
    decode_detections,
    detector_model,
    image_to_input,
)
from partita.demo.photo import DrawnPlate, draw_photo
from partita.demo.reader import (
    STRIP_SIZE,
    PlateRead,
    cut_plate,
    join_characters,
    reader_model,
    strip_to_input,
)
from partita.demo.score import PlateScore, score_plates
from partita.graph import Graph, load_graph
from partita.graph.whole import WholeModel
from partita.quantisation import collect_ranges
from partita.quantisation.samples import Feeds

#: 501 plates, three to a photo.
PHOTOS = 167
#: Photos that ranges are found on: of seeds that no judged photo has.
SAMPLES, FIRST_SAMPLE = 16, 10_000
#: Bits where fragile layers are left as they are, and samples that these are found on.
ROBUST_WIDTHS, FEW = (8, 6), 8

Photo = tuple[Pixels, list[DrawnPlate]]


class Cascade:
    """Detector and reader; plates are cut out of the photo between them."""

    def __init__(self, detector: Graph, reader: Graph) -> None:
        self._detector, self._reader = WholeModel(detector), WholeModel(reader)
        (self._strip,), (self._scores,) = reader.inputs, reader.outputs

    def score(self, photos: Sequence[Photo]) -> PlateScore:
        """The score of photos together."""
        scores = (score_plates(drawn, self._read(pixels)) for pixels, drawn in photos)
        return sum(scores, PlateScore())

    def find(self, pixels: Pixels) -> list[tuple[Detection, Feeds]]:
        """The plates found on a photo, each with the reader's input for it."""
        outputs = self._detector.run({IMAGE_INPUT: image_to_input(pixels)})
        found = decode_detections([np.asarray(outputs[name], np.float64) for name in OUTPUTS])
        return [(one, {self._strip: strip_to_input(cut_plate(pixels, one))}) for one in found]

    def _read(self, pixels: Pixels) -> list[PlateRead]:
        read = []
        for detection, strip in self.find(pixels):
            classes = self._reader.run(strip)[self._scores][0].argmax(axis=1)
            read.append(PlateRead(join_characters(classes), detection))
        return read


def compare_plates(cache: Path) -> Iterator[Row]:
    """The rows of both networks in the same bits, the detector alone, and without some layers."""
    del cache  # The networks come with the demo's package.
    detector, reader = load_plate_graphs()
    photos = [draw_photo(seed, conditions=VARIED) for seed in range(PHOTOS)]
    cascade = Cascade(detector, reader)
    plain = cascade.score(photos)
    yield from _rows("float", plain, None)
    samples = [draw_photo(FIRST_SAMPLE + number, conditions=VARIED)[0] for number in range(SAMPLES)]
    seen = [{IMAGE_INPUT: image_to_input(pixels)} for pixels in samples]
    strips = [strip for pixels in samples for _, strip in cascade.find(pixels)]
    detector_ranges, reader_ranges = collect_ranges(detector, seen), collect_ranges(reader, strips)
    for setting in SETTINGS:
        words = f"weights {setting[0]}, activations {setting[1]}"
        say(f"plates: {words}")
        small = (
            quantise(detector, detector_ranges, setting),
            quantise(reader, reader_ranges, setting),
        )
        yield from _rows(words, Cascade(*small).score(photos), plain)
        yield from _rows(f"detector alone, {words}", Cascade(small[0], reader).score(photos), plain)
    for width in ROBUST_WIDTHS:
        say(f"plates: {width} bits but for fragile layers")
        first, left = leave_fragile(detector, detector_ranges, seen[:FEW], width)
        second, also_left = leave_fragile(reader, reader_ranges, strips[:FEW], width)
        words = f"{width} bits but for {left} and {also_left} layers"
        yield from _rows(words, Cascade(first, second).score(photos), plain)


def load_plate_graphs() -> tuple[Graph, Graph]:
    """Detector and reader as graphs, for a photo and for a strip."""
    model = reader_model()
    width, height = STRIP_SIZE
    shapes = {model.graph.input[0].name: (1, 3, height, width)}
    return (
        load_graph(detector_model(), name="plate-detector"),
        load_graph(model, shapes=shapes, name="plate-reader"),
    )


def _rows(words: str, score: PlateScore, plain: PlateScore | None) -> Iterator[Row]:
    beside = dict.fromkeys(_percents(score)) if plain is None else _percents(plain)
    for what, percent in _percents(score).items():
        yield shown(f"plates: {words}, {what}", "%", percent, beside[what])


def _percents(score: PlateScore) -> dict[str, float]:
    return {
        f"found of {score.plates}": 100 * score.found / score.plates,
        "without a fault": 100 * score.plate_accuracy,
        f"characters of {score.characters}": 100 * score.character_accuracy,
    }
