import numpy as np
import onnxruntime
import pytest

from partita.demo.detector import (
    Detection,
    decode_detections,
    detector_model,
    image_to_input,
)
from partita.demo.photo import draw_photo
from partita.demo.reader import cut_plate, join_characters, read_plate

SEEDS = range(10)


@pytest.fixture(scope="module")
def detect():
    """From a photo to the whole model's detections."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        detector_model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda pixels: decode_detections(session.run(None, {"image": image_to_input(pixels)}))


def _overlap(first, second):
    low, high = np.maximum(first[:2], second[:2]), np.minimum(first[2:], second[2:])
    common = np.prod(np.clip(high - low, 0, None))
    area = [np.prod(np.subtract(box[2:], box[:2])) for box in (first, second)]
    return common / (sum(area) - common)


@pytest.mark.slow
def test_default_photo_is_found_and_read(detect):
    """On the default photo the trained networks find every plate and read every character."""
    pixels, truth = draw_photo(0)
    found = detect(pixels)
    assert len(found) == len(truth)
    for detection, plate in zip(found, truth, strict=True):
        assert _overlap(detection.box, plate.box) > 0.7
        assert np.abs(np.subtract(detection.corners, plate.corners)).max() < 5
        assert read_plate(pixels, detection) == plate.text


@pytest.mark.slow
def test_nine_of_ten_photos_are_read_exactly(detect):
    """The drawing is good enough for networks that were trained on real photos."""
    exact = 0
    for seed in SEEDS:
        pixels, truth = draw_photo(seed)
        read = [read_plate(pixels, detection) for detection in detect(pixels)]
        exact += read == [plate.text for plate in truth]
    assert exact >= 9


def test_characters_repeat_only_across_a_separator():
    """Equal neighbours are one character, equal ones with class 0 between are two."""
    assert join_characters(np.array([0, 2, 2, 0, 2, 11, 11, 0, 0])) == "11A"
    assert join_characters(np.array([0, 0])) == ""


def test_plate_is_cut_upright():
    """A tilted plate becomes a strip whose left half is what was left on it."""
    pixels = np.zeros((60, 200, 3), np.uint8)
    pixels[:, 100:] = 200
    corners = ((40.0, 20.0), (160.0, 22.0), (160.0, 50.0), (40.0, 48.0))
    strip = cut_plate(pixels, Detection((40, 20, 160, 50), 1.0, corners))
    assert strip.shape == (32, 200, 3)
    assert strip[:, :90].max() == 0
    assert strip[:, 110:].min() == 200
