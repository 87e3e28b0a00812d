"""The whole model on this machine: what a divided run must agree with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from partita.engine.session import SessionConfig, open_session
from partita.errors import RunError
from partita.exactness.compare import Difference, difference_of

Array = npt.NDArray[np.generic]


def run_whole(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the undivided model by plain ONNX Runtime with one thread."""
    config = SessionConfig(threads=1, integer_kernels=True)
    session = open_session(model.SerializeToString(), config)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def compare_outputs(
    whole: Mapping[str, Array], divided: Mapping[str, Array]
) -> tuple[Difference, ...]:
    """The deviation of each output of a divided run from the whole model's.

    Raises:
        RunError: An output is missing, or has another shape.
    """
    return tuple(_compare(name, expected, divided.get(name)) for name, expected in whole.items())


def _compare(name: str, expected: Array, got: Array | None) -> Difference:
    if got is None or got.shape != expected.shape:
        form = "none" if got is None else str(got.shape)
        raise RunError(
            f"Output {name!r} of the divided run has another form than the whole model's: "
            f"got {form}, expected {expected.shape}. This is a fault of Partita; report it."
        )
    return difference_of(name, got, expected)
