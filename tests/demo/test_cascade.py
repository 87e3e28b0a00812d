from math import prod

import numpy as np
import pytest
from PIL import Image

from partita.demo.cascade import CLASSES, CORNERS, SCORE, STRIP, cascade_graph, part_of, read_answer
from partita.demo.conditions import VARIED
from partita.demo.detector import IMAGE_INPUT, decode_detections, detector_model, image_to_input
from partita.demo.photo import draw_photo
from partita.demo.reader import PLATE_READER, TEXT_READER, cut_plate, strip_to_input
from partita.demo.whole import run_whole
from partita.graph.whole import WholeModel

SEEDS = (1, 2)


@pytest.fixture(scope="module")
def graph():
    """Detector, crop and reader as one network."""
    return cascade_graph(PLATE_READER)


def _detect(pixels):
    outputs = run_whole(detector_model(), {IMAGE_INPUT: image_to_input(pixels)})
    return decode_detections([outputs[name] for name in ("loc", "conf", "landms")])


@pytest.mark.slow
def test_cascade_reads_as_detector_and_reader_do(graph):
    """One network finds the same corners, cuts out that plate, and reads what the reader does."""
    model = WholeModel(graph, [STRIP])
    for seed in SEEDS:
        pixels, _ = draw_photo(seed, plates=1, conditions=VARIED)
        (expected,) = _detect(pixels)
        answer = model.run({IMAGE_INPUT: image_to_input(pixels)})
        (read,) = read_answer(PLATE_READER, answer)
        np.testing.assert_allclose(answer[CORNERS], expected.corners, atol=1e-2)
        assert read.detection.score == pytest.approx(expected.score, abs=1e-5)
        strip = answer[STRIP][0, ::-1].transpose(1, 2, 0)
        name = (trained := PLATE_READER.model()).graph.input[0].name
        (scores,) = run_whole(trained, {name: strip_to_input(strip)}).values()
        assert read.text == PLATE_READER.join(scores[0].argmax(axis=1))
        # The network interpolates linearly, the demo with cubes.
        apart = np.abs(strip.astype(float) - cut_plate(pixels, expected))
        assert apart.mean() < 4


@pytest.mark.slow
def test_strip_is_the_plate_seen_from_straight_ahead(graph):
    """The crop's map through four corners is that of another library, to a byte's rounding."""
    pixels, _ = draw_photo(3, plates=1, conditions=VARIED)
    answer = WholeModel(graph, [STRIP]).run({IMAGE_INPUT: image_to_input(pixels)})
    corners = answer[CORNERS].astype(float)
    wide = corners + (corners - corners.mean(axis=0)) * 0.06
    width, height = size = PLATE_READER.strip_size
    ends = [(0, 0), (width, 0), (width, height), (0, height)]
    rows = []
    for (x, y), (u, v) in zip(ends, wide, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    back = np.linalg.solve(np.array(rows, float), wide.reshape(-1))
    linear = Image.Resampling.BILINEAR
    seen = Image.fromarray(pixels).transform(size, Image.Transform.PERSPECTIVE, tuple(back), linear)
    apart = answer[STRIP][0, ::-1].transpose(1, 2, 0).astype(int) - np.asarray(seen)
    assert np.abs(apart).max() <= 2


def test_a_plate_that_is_not_sure_is_none():
    """Below the detector's own bound nothing counts as read."""
    corners = np.array([[0, 0], [40, 0], [40, 12], [0, 12]], np.float32)
    classes = np.array([[11, 11, 0, 2]])
    answer = {SCORE: np.array([0.69], np.float32), CORNERS: corners, CLASSES: classes}
    assert read_answer(PLATE_READER, answer) == ()
    answer[SCORE] = np.array([0.71], np.float32)
    (read,) = read_answer(PLATE_READER, answer)
    assert (read.text, read.detection.box) == ("A1", (0, 0, 40, 12))


def test_the_plate_leaves_the_photo_as_bytes(graph):
    """What the crop makes and the reader reads is one picture of bytes, and a cut."""
    parts = [part_of(layer.name) for layer in graph.layers]
    assert all(parts.count(part) > 10 for part in ("detector", "crop", "reader"))
    crossing = [
        spec
        for spec in graph.tensors.values()
        if (maker := graph.producer(spec.name))
        and part_of(maker.name) == "crop"
        and any(part_of(layer.name) == "reader" for layer in graph.readers(spec.name))
    ]
    assert [(spec.dtype, prod(spec.shape)) for spec in crossing] == [("uint8", 3 * 32 * 200)]


def test_readers_know_their_sizes():
    """The larger reader takes taller strips of a plate's own proportions."""
    assert TEXT_READER.strip_size[1] > PLATE_READER.strip_size[1]
