"""What a model's outputs must be for it to be divided, or measured in parts."""

from __future__ import annotations

from partita.errors import ModelError
from partita.graph.graph import Graph


def refuse_odd_outputs(graph: Graph) -> None:
    """Raise where an output's shape is not known beforehand, or leaves nothing to place.

    Raises:
        ModelError: Names the output.
    """
    for tensor in graph.outputs:
        shape = graph.tensors[tensor].shape
        if 0 in shape:
            raise ModelError(
                f"Output '{tensor}' of model '{graph.name}' has shape {'x'.join(map(str, shape))},"
                " which is empty: there is nothing to divide. Leave it out of the model's outputs.",
                subject=tensor,
            )
        if min(shape, default=0) < 0:
            raise ModelError(
                f"Output '{tensor}' of model '{graph.name}' has a shape that depends on the data;"
                " such a model can be inspected, not divided. End it before the node that makes"
                " the shape, and do that on the answer.",
                subject=tensor,
            )
