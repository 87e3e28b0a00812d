"""Module and graph are the same network."""

import random

import numpy as np
import onnxruntime
import pytest
import torch

from partita.separable.architecture import Architecture
from partita.separable.export import tolerance_of
from partita.separable.graph import build_graph
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy, silent
from tests.separable.policies import draw_policy


def _settled(architecture: Architecture, policy: Policy) -> SeparableNet:
    """A network whose normalisations have seen images."""
    net = SeparableNet(architecture, seed=1)
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(8, *architecture.image, generator=draw), policy)
    return net.eval()


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("staleness", [1, 2])
def test_module_and_graph_agree(groups: int, staleness: int) -> None:
    """Within rounding, for drawn policies."""
    architecture = Architecture.parse("4x4d-20", groups=groups, image=(3, 16, 12))
    policy = draw_policy(architecture, random.Random(groups), staleness)
    net = _settled(architecture, policy)
    weights = {key: value.numpy() for key, value in net.state_dict().items()}
    model = build_graph(architecture, policy, weights)
    image = np.random.default_rng(3).standard_normal((1, *architecture.image)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {"input": image})
    with torch.no_grad():
        expected = net(torch.from_numpy(image), policy).numpy()
    assert np.abs(found - expected).max() <= tolerance_of(policy) * np.abs(expected).max()


def test_the_module_has_as_many_parameters_as_are_counted() -> None:
    """For several forms."""
    for name, groups in (("8x16d-56", 1), ("8x16d-56", 4), ("4x16d-20", 2), ("64x4d-20", 8)):
        architecture = Architecture.parse(name, groups=groups, classes=100)
        count = sum(weight.numel() for weight in SeparableNet(architecture).parameters())
        assert count == architecture.count_parameters()


def test_policies_change_the_answer() -> None:
    """What is sent is used."""
    architecture = Architecture.parse("4x4d-20", groups=4, image=(3, 16, 16))
    policy = Policy(tuple(d for d in draw_policy(architecture, random.Random(1)).decisions))
    net = _settled(architecture, policy)
    images = torch.randn(2, *architecture.image)
    with torch.no_grad():
        assert not torch.allclose(net(images, policy), net(images))


def test_what_nobody_reads_is_left_out() -> None:
    """Groups that group 0 hears nothing from."""
    architecture = Architecture.parse("4x4d-20", groups=4, image=(3, 16, 16))
    model = build_graph(architecture, silent(architecture))
    assert not any(".g1" in node.name for node in model.graph.node)
    assert not any(".g1" in weight.name for weight in model.graph.initializer)


def test_features_keep_their_layout() -> None:
    """Channels lie side by side up to the last convolution: in another order all is slower."""
    architecture = Architecture.parse("4x4d-20", groups=4, image=(3, 16, 16))
    net = _settled(architecture, silent(architecture))
    policy = draw_policy(architecture, random.Random(1), 2)
    layouts = []
    last = net.get_submodule("stage2.block1.conv3")
    last.register_forward_pre_hook(
        lambda layer, given: layouts.append(
            given[0].is_contiguous(memory_format=torch.channels_last)
        )
    )
    with torch.no_grad():
        net(torch.randn(2, *architecture.image), policy)
    assert layouts == [True]
