"""A trained network as an ONNX graph, compared with what was trained."""

from __future__ import annotations

import onnx
import torch

from partita.engine.session import open_session
from partita.errors import RunError
from partita.separable.graph import INPUT, build_graph
from partita.separable.network import Network
from partita.separable.policy import Policy

#: Of the largest logit: what adding floats in another order changes.
TOLERANCE = 1e-5
#: The same where features travel as 16-bit floats: a number between two of these may be rounded to
#: the other, which is 0.0005 of it away.
_TOLERANCE_OF_HALVES = 1e-4
_COMPARED = 8


def export_network(network: Network, name: str) -> tuple[onnx.ModelProto, float]:
    """The graph, and how far it is from the module on drawn images.

    The difference is of logits, as a share of the largest.

    Raises:
        RunError: It is more than :func:`tolerance_of` the policy.
    """
    net = network.net.eval()
    architecture = net.architecture
    weights = {key: value.numpy() for key, value in net.state_dict().items()}
    model = build_graph(architecture, network.policy, weights, name=name)
    session = open_session(model.SerializeToString())
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(_COMPARED, 1, *architecture.image, generator=draw)
    difference = 0.0
    for image in images:
        (found,) = session.run(None, {INPUT: image.numpy()})
        with torch.inference_mode():
            expected = net(image, network.policy)
        apart = (torch.from_numpy(found) - expected).abs().max() / expected.abs().max()
        difference = max(difference, float(apart))
    if not difference <= tolerance_of(network.policy):  # NaN is more, too
        raise RunError(
            f"The graph's logits are {difference:.1g} of the largest away from the network's,"
            f" allowed are {tolerance_of(network.policy):g}."
        )
    return model, difference


def tolerance_of(policy: Policy) -> float:
    """How far a graph may be from its module, as a share of the largest logit."""
    return _TOLERANCE_OF_HALVES if policy.halves else TOLERANCE
