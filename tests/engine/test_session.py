"""What the engine's shared arena holds after large fragments."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from partita.engine import OrtEngine
from partita.engine.session import shrink_arena
from partita.memory import private_bytes, release
from tests.models import make_model

#: Floats of a tensor of 67 MB.
_ITEMS = 2**24


def test_what_no_session_uses_is_given_back() -> None:
    """Sessions that are left answer as before, and what they made stays."""
    ops = ("Neg", "Exp", "Abs")
    nodes = [helper.make_node(op, [f"t{n}"], [f"t{n + 1}"]) for n, op in enumerate(ops)]
    model = make_model(nodes, {"t0": (1, _ITEMS)}, ["t3"], {})
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("t3", TensorProto.FLOAT, (1, _ITEMS))
    )
    runner = OrtEngine(1).load(model.SerializeToString(), {})
    feed = np.full((1, _ITEMS), 0.5, np.float32)
    before = private_bytes()
    (first,) = runner.run([feed])
    expected = first[:, :8].copy()
    release()
    held = private_bytes() - before
    shrink_arena()
    release()
    left = private_bytes() - before
    assert held - left > 60e6
    assert np.array_equal(first[:, :8], expected)
    (again,) = runner.run([feed])
    assert np.array_equal(again, first)
