"""Reading the engine's profile: which node belongs to which layer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from partita.engine.timer import read_nodes
from partita.profile.segments import SizedSegment
from partita.profile.trace import read_trace
from partita.regions import Region

IN = Region.full((1, 16, 8, 8))
OUT = Region.full((1, 32, 8, 8))
SEGMENT = SizedSegment((("a", {"t": IN}), ("b", {"u": OUT})), (("s", IN),), (("u", OUT),))


def event(name: str, micros: int, op: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return one node's event as the engine writes it."""
    args = {"op_name": op, "output_size": "4096", "output_type_shape": [{"float": list(shape)}]}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": micros, "args": args}


def run_event() -> dict[str, Any]:
    """Return the event that ends a run."""
    return {"cat": "Session", "name": "model_run", "dur": 1, "args": {}}


def test_nodes_are_counted_for_their_layers_and_borders_apart() -> None:
    """Names give the layer; conversions of the fragment's own inputs and outputs are borders."""
    events = [
        event("ReorderInput", 7, "ReorderInput", IN.shape),
        event("%3L0._nchwc", 10, "Conv", IN.shape),
        event("%9L1.", 20, "Conv", OUT.shape),
        event("ReorderOutput", 5, "ReorderOutput", OUT.shape),
        run_event(),
    ]
    trace = read_trace(read_nodes(msgspec.json.encode(events)), SEGMENT)
    (run,) = trace.runs
    assert dict(run.layers) == {0: pytest.approx(10e-6), 1: pytest.approx(20e-6)}
    assert run.enter == [(4096, pytest.approx(7e-6))]
    assert run.leave == [(4096, pytest.approx(5e-6))]
    assert trace.blocked == {0}


def test_output_names_find_their_layer_and_inner_conversions_none() -> None:
    """A node named after output 0 belongs to its producer; conversions are priced as borders."""
    inner = (1, 16, 2, 2)
    events = [
        event("%3L0.", 10, "Conv", IN.shape),
        event("ReorderOutput", 4, "ReorderOutput", inner),
        event("ReorderInput", 3, "ReorderInput", inner),
        event("o0_nchwc", 20, "Conv", OUT.shape),
        run_event(),
        run_event(),
    ]
    trace = read_trace(read_nodes(msgspec.json.encode(events)), SEGMENT)
    run = trace.runs[0]
    assert dict(run.layers) == {0: pytest.approx(10e-6), 1: pytest.approx(20e-6)}
    assert (run.enter, run.leave) == ([(4096, pytest.approx(3e-6))], [(4096, pytest.approx(4e-6))])
    assert trace.blocked == {1}
    assert dict(trace.runs[1].layers) == {}


def test_sums_of_their_own_are_told_from_their_layer() -> None:
    """They count for it, and apart: where they are fused they take nothing."""
    events = [
        event("%3L0._nchwc", 10, "Conv", IN.shape),
        event("%4L0.", 6, "Add", IN.shape),
        event("%5L0.", 2, "Relu", IN.shape),
        event("%9L1.", 20, "Add", OUT.shape),
        run_event(),
    ]
    (run,) = read_trace(read_nodes(msgspec.json.encode(events)), SEGMENT).runs
    assert dict(run.layers) == {0: pytest.approx(18e-6), 1: pytest.approx(20e-6)}
    assert dict(run.sums) == {0: pytest.approx(6e-6), 1: pytest.approx(20e-6)}
