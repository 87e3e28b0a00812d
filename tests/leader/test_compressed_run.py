"""A run whose payloads are compressed: what is reported as sent is what left."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.compile.test_export import CLUSTER, cut_plan
from tests.memory_lab import memory_lab
from tests.quantisation.networks import draw_samples, small_graph

from partita.compile import compile_plan
from partita.errors import RunError
from partita.leader import deploy


def test_bytes_of_a_run_are_those_that_left() -> None:
    """Payloads are shorter than expected, and differ: the report counts them, in the mean."""
    graph = small_graph()
    compiled = compile_plan(graph, cut_plan(graph, {}, 3, wire="zlib@0.99"), CLUSTER)
    expected = next(s.wire_bytes for s in compiled.program.streams if s.target == "cloud")
    sizes: list[int] = []
    with memory_lab(CLUSTER.devices) as lab, deploy(compiled, lab.endpoint) as session:
        endpoint = lab.workers["camera"].endpoint
        send = endpoint.send

        def counting(target: str, header: bytes, payload: Any) -> None:
            if target == "cloud":
                sizes.append(len(payload))
            send(target, header, payload)

        endpoint.send = counting  # type: ignore[method-assign]
        flat = [{"x": np.zeros_like(feeds["x"])} for feeds in draw_samples(1)]
        session.run([*draw_samples(2), *flat])
        report = session.report()
    (link,) = [use for use in report.links if use.target == "cloud"]
    assert len(sizes) == 3
    assert min(sizes) < max(sizes) < expected
    assert link.bytes == sum(sizes)


def test_a_worker_without_a_format_is_named() -> None:
    """Pictures take a library: who has it not is told before anything is deployed."""
    graph = small_graph()
    compiled = compile_plan(graph, cut_plan(graph, {}, 3, wire="jpeg60@0.5"), CLUSTER)
    with memory_lab(CLUSTER.devices) as lab:
        worker = lab.workers["cloud"]
        told = worker._info()
        assert {"zlib", "jpeg60"} <= set(told.formats)
        bare = msgspec.structs.replace(told, formats=("raw", "zlib"))
        worker._info = lambda: bare  # type: ignore[method-assign]
        words = "Worker 'cloud' has not the format jpeg60 of tensor .*, it has raw, zlib. Install"
        with pytest.raises(RunError, match=words):
            deploy(compiled, lab.endpoint)
