"""A network's file as ONNX: as trained, and compared."""

import pytest
import torch

from partita.errors import RunError
from partita.separable import export
from partita.separable.architecture import Architecture
from partita.separable.export import TOLERANCE, export_network
from partita.separable.module import SeparableNet
from partita.separable.network import Network
from partita.separable.policy import Policy

ARCHITECTURE = Architecture.parse("4x2d-11", groups=4, classes=3)
POLICY = Policy.parse("9,16:4,7")


def _network(policy: Policy = POLICY) -> Network:
    net = SeparableNet(ARCHITECTURE, seed=1)
    with torch.no_grad():
        for _ in range(2):
            net(torch.rand(4, *ARCHITECTURE.image), policy)
    return Network(net, policy, {})


def test_what_is_written_is_what_was_trained() -> None:
    """Within rounding, also without a lost group's messages."""
    for policy in (POLICY, POLICY.without(1)):
        model, difference = export_network(_network(policy), "net")
        assert model.graph.name == "net"
        assert difference <= TOLERANCE


def test_a_graph_that_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file comes of it."""
    build = export.build_graph
    monkeypatch.setattr(
        export, "build_graph", lambda a, policy, *rest, **named: build(a, POLICY, *rest, **named)
    )
    with pytest.raises(RunError, match="of the largest away from the network's"):
        export_network(_network(Policy.parse("0,0,0")), "net")
