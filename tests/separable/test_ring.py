"""The plain network divided by channels."""

import numpy as np
import onnxruntime
import pytest

from partita.cli.inputs import draw_inputs
from partita.cluster import Cluster
from partita.compile import account_layout, build_layout, check_plan, compile_plan
from partita.errors import PlanError
from partita.exactness.interpret import run_program
from partita.graph import load_graph
from partita.separable.architecture import Architecture
from partita.separable.graph import build_graph
from partita.separable.policy import silent
from partita.separable.ring import divide_by_channels
from partita.separable.traffic import count_traffic

PLAIN = Architecture.parse("4x4d-11", image=(3, 8, 8))
CLUSTER = Cluster.of(["d0", "d1", "d2", "d3"], bandwidth_bytes_per_s=1e7, latency_s=0.0)


@pytest.mark.parametrize("devices", [2, 4])
def test_the_ring_can_be_run(devices: int) -> None:
    """What is counted travels, but that of the last block the requester alone fetches the rest."""
    graph, names = load_graph(build_graph(PLAIN, silent(PLAIN))), CLUSTER.names[:devices]
    plan = divide_by_channels(graph, CLUSTER, PLAIN, names)
    check_plan(graph, plan, CLUSTER)
    grouped = Architecture.parse("4x4d-11", groups=devices, image=(3, 8, 8))
    last = list(PLAIN.blocks())[-1]
    last_bytes = 4 * last.channels * last.size[0] * last.size[1]
    expected = count_traffic(grouped, silent(grouped)).ring_bytes
    expected -= (devices - 1) * last_bytes - (devices - 1) * last_bytes // devices
    account = account_layout(graph, build_layout(graph, plan, CLUSTER))
    assert 4 * account.exchanged_elements == expected
    (inputs,) = draw_inputs(graph.input_specs, 1, 0)
    (found,) = run_program(compile_plan(graph, plan, CLUSTER), inputs)[0].values()
    session = onnxruntime.InferenceSession(graph.to_model().SerializeToString())
    (whole,) = session.run(None, inputs)
    assert np.abs(found - whole).max() <= 1e-5 * np.abs(whole).max()


def test_paths_are_shared_out_in_equal_parts() -> None:
    """Four paths are not for three devices."""
    graph = load_graph(build_graph(PLAIN, silent(PLAIN)))
    with pytest.raises(PlanError, match="among 3 devices: allowed is one group"):
        divide_by_channels(graph, CLUSTER, PLAIN, CLUSTER.names[:3])
