"""A trained network as a file: weights, with architecture and policy beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partita.errors import InputError
from partita.separable import checkpoint
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy
from partita.separable.residual import ResidualNetwork
from partita.separable.training import prefixed, under


@dataclass(frozen=True)
class Network:
    """A trained network.

    Attributes:
        policy: Under which it was trained.
        facts: What else is known of it, for JSON: how accurate it is.
    """

    net: SeparableNet
    policy: Policy
    facts: dict[str, Any]


def save_network(path: Path, network: Network) -> None:
    """Write a network, whole or not at all."""
    net = network.net
    facts = {**network.facts, "policy": network.policy.facts()}
    checkpoint.save(path, net.architecture, prefixed("net.", net.state_dict()), facts)


def load_network(path: Path) -> Network:
    """Read a network.

    Raises:
        InputError: The file cannot be read, or holds no network under a policy.
    """
    architecture, facts, tensors = checkpoint.load(path)
    if "policy" not in facts:
        raise InputError(
            f"Checkpoint '{path}' has no policy: it is of a search that goes on. Its networks are"
            " the files network….safetensors beside it.",
            subject=str(path),
        )
    net = SeparableNet(architecture)
    net.load_state_dict(under("net.", tensors))
    return Network(net.eval(), Policy.from_facts(facts.pop("policy")), facts)


def start_from(net: SeparableNet, path: Path, architecture: ResidualNetwork) -> None:
    """Give a network the weights of a file, of a network or of a search that goes on.

    Raises:
        InputError: The file cannot be read, or is of another architecture.
    """
    _, _, tensors = checkpoint.load(path, architecture)
    net.load_state_dict(under("net.", tensors))
