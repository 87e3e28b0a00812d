import numpy as np
import onnx
import pytest

from partita.demo.detector import (
    IMAGE_SIZE,
    decode_detections,
    detector_model,
    image_to_input,
    make_priors,
    suppress_overlaps,
)
from partita.errors import InputError


def _silent(count):
    outputs = [np.zeros((1, count, width), np.float32) for width in (4, 2, 8)]
    outputs[1][..., 0] = 1
    return outputs


def _say(outputs, row, score, shift=(0, 0, 0, 0), corners=(0,) * 8):
    outputs[0][0, row] = shift
    outputs[1][0, row] = (1 - score, score)
    outputs[2][0, row] = corners


def test_priors_follow_the_three_grids():
    """Priors come fine grid first, row by row, two sides per place."""
    priors = make_priors(*IMAGE_SIZE)
    assert priors.shape == (2 * (60 * 80 + 30 * 40 + 15 * 20), 3)
    assert priors[:3].tolist() == [[4, 4, 24], [4, 4, 48], [12, 4, 24]]
    assert priors[2 * 80].tolist() == [4, 12, 24]
    assert priors[2 * 60 * 80].tolist() == [8, 8, 96]
    assert priors[-1].tolist() == [624, 464, 768]


def test_decode_one_candidate():
    """Shifts move the centre by a tenth of the side, and sizes grow by exp of a fifth."""
    outputs = _silent(12600)
    row = 2 * (10 * 80 + 20) + 1
    corners = (5, 2.5, -5, 2.5, -5, -2.5, 5, -2.5)
    _say(outputs, row, 0.9, (1, -1, 5 * np.log(2), 0), corners)
    (found,) = decode_detections(outputs)
    x, y, side = 20 * 8 + 4, 10 * 8 + 4, 48
    middle_x, middle_y = x + 4.8, y - 4.8
    assert found.score == pytest.approx(0.9)
    assert found.box == pytest.approx(
        (middle_x - side, middle_y - 24, middle_x + side, middle_y + 24)
    )
    left, right, top, bottom = x - 24, x + 24, y - 12, y + 12
    expected = ((left, top), (right, top), (right, bottom), (left, bottom))
    assert np.allclose(found.corners, expected)


def test_decode_keeps_the_surer_of_two_and_sorts():
    """Overlapping candidates leave one, unsure ones none; plates come from left to right."""
    outputs = _silent(12600)
    right, left = 2 * (10 * 80 + 60) + 1, 2 * (30 * 80 + 20) + 1
    _say(outputs, right, 0.8)
    _say(outputs, right + 2, 0.95)
    _say(outputs, left, 0.75)
    _say(outputs, 2 * (50 * 80 + 40) + 1, 0.69)
    found = decode_detections(outputs)
    assert [round(plate.score, 2) for plate in found] == [0.75, 0.95]


def test_decode_nothing():
    """A photo without plates gives an empty list."""
    assert decode_detections(_silent(12600)) == []


def test_suppress_overlaps_measures_intersection_over_union():
    """Boxes stay when their common share does not exceed the limit."""
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 5], [5, 0, 15, 10], [40, 40, 50, 50]], float)
    assert suppress_overlaps(boxes, 0.4) == [0, 2, 3]
    assert suppress_overlaps(boxes, 0.3) == [0, 3]
    assert suppress_overlaps(boxes, 0.5) == [0, 1, 2, 3]


def test_input_has_the_cameras_bytes():
    """The photo's RGB rows become BGR planes, byte for byte."""
    pixels = np.zeros((*IMAGE_SIZE, 3), np.uint8)
    pixels[5, 7] = (1, 2, 3)
    assert image_to_input(pixels)[0, :, 5, 7].tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    "pixels", [np.zeros((480, 320, 3), np.uint8), np.zeros((480, 640, 3), np.float32)]
)
def test_input_of_another_form(pixels):
    """A photo of another size or type is refused with what is allowed."""
    with pytest.raises(InputError, match=r"allowed uint8 \(480, 640, 3\)"):
        image_to_input(pixels)


def test_model_has_static_shapes():
    """The detector takes bytes and every shape of its inputs and outputs is a number."""
    model = detector_model()
    onnx.checker.check_model(model)
    (image,) = model.graph.input
    assert image.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [image, *model.graph.output]
    }
    assert shapes == {
        "image": [1, 3, 480, 640],
        "loc": [1, 12600, 4],
        "conf": [1, 12600, 2],
        "landms": [1, 12600, 8],
    }
