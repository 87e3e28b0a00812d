"""Somebody's residual network in groups: its graph, and what training goes on from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from partita.cli.actions.separable_flags import naming_flags
from partita.cli.actions.separable_run import describe_accounts
from partita.cli.output import Reply, check_folder, write_outputs
from partita.cli.sources import read_graph
from partita.errors import ModelError
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.separable.accuracy_traffic import describe_traffic
from partita.separable.convert import Conversion, convert
from partita.separable.export import TOLERANCE, export_network
from partita.separable.module import SeparableNet
from partita.separable.network import Network, save_network
from partita.separable.policy import Policy, count_windows, rotating, silent
from partita.separable.read import ReadNetwork, read_network


def convert_model(
    path: Path, shapes: Sequence[str] | None, groups: int, alpha: int, folder: Path
) -> Reply:
    """Write a network's separable form: ``network.onnx`` and ``network.safetensors``.

    Raises:
        ModelError: It has no such form; the message names the block or the number.
        RunError: Module and graph differ.
    """
    check_folder(folder)
    graph = read_graph(path, shapes, optimise=False)
    source = read_network(graph)
    with naming_flags():
        count_windows(source.network, alpha)
        conversion = convert(source, groups)
    misread = _compare_reading(graph, source)
    policy = rotating(conversion.network, alpha)
    net = SeparableNet.of(conversion.network, conversion.weights)
    network = Network(net, policy, {"converted_from": source.network.name})
    model, difference = export_network(network, "network")
    write_outputs(folder, {"network.onnx": model.SerializeToString()})
    save_network(folder / "network.safetensors", network)
    payload = {
        "model": str(folder / "network.onnx"),
        "network": str(folder / "network.safetensors"),
        "architecture": str(conversion.network),
        "stages": list(conversion.network.stages),
        "staleness": policy.staleness,
        "policy": str(policy),
        "parameters_given": conversion.given,
        "parameters_kept": conversion.kept,
        "parameters": conversion.network.count_parameters(),
        "difference": difference,
        "difference_of_one_group": misread,
        **describe_traffic(conversion.network, policy),
    }
    return Reply(payload, [*_describe(conversion, policy, payload)])


def _compare_reading(graph: Graph, source: ReadNetwork) -> float:
    """How far the network as it was read is from the file, as a share of the largest logit.

    Raises:
        ModelError: Further than rounding.
    """
    plain = convert(source, 1)
    net = SeparableNet.of(plain.network, plain.weights).eval()
    image = np.random.default_rng(0).random((1, *plain.network.image), np.float32)
    (expected,) = WholeModel(graph).run({graph.inputs[0]: image}).values()
    with torch.inference_mode():
        found = net(torch.from_numpy(image), silent(plain.network)).numpy()
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not difference <= TOLERANCE:  # NaN is more, too
        raise ModelError(
            f"Model '{graph.name}' was not read as it is: its logits and those of what was read are"
            f" {difference:.1g} of the largest apart, allowed are {TOLERANCE:g}.",
            subject=graph.name,
        )
    return difference


def _describe(conversion: Conversion, policy: Policy, payload: dict[str, Any]) -> list[str]:
    network = conversion.network
    stages = ", ".join(map(str, network.stages))
    checkpoint = shlex.quote(payload["network"])
    return [
        f"Network:  {network}, blocks of each stage: {stages}",
        f"Kept:     {conversion.kept:,} of {conversion.given:,} parameters"
        f" ({conversion.kept / conversion.given:.1%}); {payload['parameters']:,} in all,"
        f" {_compare_counts(payload['parameters'], conversion.given)}",
        describe_accounts(network, policy),
        f"Compared: in one group, logits are {payload['difference_of_one_group']:.1g} of the"
        f" largest away from the file's; the graph's {payload['difference']:.1g} from the module's"
        f" (allowed {TOLERANCE:g})",
        f"To be trained: partita separable train --data PICTURES --from {checkpoint}"
        f" --policy {checkpoint} -o DIR",
        f"Written to {payload['model']} and {payload['network']}",
    ]


def _compare_counts(count: int, before: int) -> str:
    """How many more there are than before, or fewer.

    >>> _compare_counts(12, 10), _compare_counts(8, 10)
    ('20.0% more', '20.0% fewer')
    """
    return f"{abs(count / before - 1):.1%} {'more' if count >= before else 'fewer'}"
