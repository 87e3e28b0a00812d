"""Messages that are added to what their receivers have."""

from __future__ import annotations

import pytest
import torch

from partita.separable.policy import Exchange
from partita.separable.receive import add_messages


@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("are_lost", [False, True])
def test_gradients_are_those_of_what_is_added(channels: int, are_lost: bool) -> None:
    """With all channels and some, with messages that do not arrive, and a group that is silent."""
    draw = torch.Generator().manual_seed(0)
    x, sent = (torch.rand(2, 12, 2, 2, generator=draw, dtype=torch.double) for _ in range(2))
    exchange = Exchange(0, 1, (2, 1, 3, 0), channels, halves=False)
    arrived = None
    if are_lost:
        arrived = [torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1).double() for _ in range(3)]

    def add(x: torch.Tensor, sent: torch.Tensor) -> torch.Tensor:
        return add_messages(x, sent, exchange, 4, arrived)

    total = add(x, sent)
    added = (total - x).chunk(4, 1)
    lost = 1 if are_lost else 0
    for sender, receiver in ((0, 2), (2, 3), (3, 0)):
        wanted = sent.chunk(4, 1)[sender][lost:, :channels]
        torch.testing.assert_close(added[receiver][lost:, :channels], wanted)
        assert not added[receiver][:, channels:].any()
        assert not added[receiver][:lost].any()
    assert not added[1].any()
    assert torch.autograd.gradcheck(add, (x.requires_grad_(), sent.requires_grad_()))


def test_halves_are_rounded_on_their_way() -> None:
    """Features travel as 16-bit floats; what stays is not rounded."""
    x, sent = torch.zeros(1, 2, 1, 1), torch.full((1, 2, 1, 1), 1 / 3)
    total = add_messages(x, sent, Exchange(0, 0, (1, 0), 1, halves=True), 2, None)
    assert total.flatten().tolist() == sent.half().float().flatten().tolist()
    assert total[0, 0] != sent[0, 0]
