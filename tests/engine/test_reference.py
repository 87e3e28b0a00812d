"""The reference work."""

from __future__ import annotations

import numpy as np
import onnx

from partita.engine import OrtEngine
from partita.engine.reference import reference_model


def test_the_model_is_what_onnx_would_write() -> None:
    """The hand-written bytes are a valid model of one convolution that keeps its shape."""
    model = onnx.load_from_string(reference_model())
    onnx.checker.check_model(model, full_check=True)
    (node,) = model.graph.node
    assert node.op_type == "Conv"
    runner = OrtEngine().load(reference_model(), {})
    image = np.ones((1, 64, 56, 56), np.float32)
    (found,) = runner.run([image, np.ones((64, 64, 3, 3), np.float32)])
    assert found.shape == image.shape
    assert found[0, 0, 10, 10] == 64 * 9
