"""Tensors that hold what another tensor holds, and so must stay where it must."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.graph.graph import Graph


def rounded_inputs(graph: Graph) -> dict[str, str]:
    """The rounded copies of a quantised graph's inputs, each with its input."""
    if graph.base is None:
        return {}
    known = {layer.name for layer in graph.base.layers}
    return {layer.outputs[0]: layer.inputs[0] for layer in graph.layers if layer.name not in known}


def spread_pins(graph: Graph, keep_on: Mapping[str, str]) -> dict[str, str]:
    """Tensors that must not leave a device, with the rounded copies of those that are inputs.

    Args:
        keep_on: Tensor name to device name.
    """
    copies = rounded_inputs(graph).items() if keep_on else ()
    return {**keep_on, **{copy: keep_on[name] for copy, name in copies if name in keep_on}}
