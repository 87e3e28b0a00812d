"""A trained separable network as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from partita.cli.actions.separable_run import describe_accounts
from partita.cli.output import Reply, write_output
from partita.errors import ModelError
from partita.separable.accuracy_traffic import describe_traffic
from partita.separable.export import export_network, tolerance_of
from partita.separable.network import load_network


def export_checkpoint(path: Path, output: Path, lost: Sequence[int]) -> Reply:
    """Write a network's graph, which was compared with the module that was trained.

    Raises:
        InputError: The file cannot be read, or is of no network.
        ModelError: A lost group is none that may be lost.
        RunError: Graph and module differ.
    """
    network = load_network(path)
    architecture = network.net.architecture
    policy = network.policy
    for group in sorted(set(lost)):
        if architecture.groups == 1:
            raise ModelError(f"--lost {group}: {architecture} is one piece, which answers.")
        if not 0 < group < architecture.groups:
            raise ModelError(
                f"--lost {group}: allowed for {architecture} are 1 to {architecture.groups - 1};"
                " group 0 answers"
            )
        policy = policy.without(group)
    model, difference = export_network(replace(network, policy=policy), output.stem)
    data = model.SerializeToString()
    write_output(output, data)
    payload = {
        "model": str(output),
        "architecture": str(architecture),
        "staleness": policy.staleness,
        "policy": str(policy),
        "lost": list(policy.lost),
        "difference": difference,
        "nodes": len(model.graph.node),
        **describe_traffic(architecture, policy),
    }
    gone = "".join(f", without group {group}'s messages" for group in policy.lost)
    lines = [
        f"Network:  {architecture}, {len(model.graph.node)} nodes{gone}",
        describe_accounts(architecture, policy),
        f"Compared: logits are {difference:.1g} of the largest away from the trained network's"
        f" (allowed {tolerance_of(policy):g})",
        f"Written to {output}",
    ]
    return Reply(payload, [*lines])
