"""How long payloads of tensors are in formats that compress, as samples show."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partita.graph import Graph
from partita.graph.grids import find_grids, travel_formats
from partita.graph.whole import WholeModel
from partita.quantisation.samples import Feeds
from partita.regions import encode_array, most_bytes, read_format

#: Samples that are looked at: what is wanted is a mean, and each compresses every tensor.
_MOST_SAMPLES = 8


def measure_shares(
    samples: Sequence[Feeds], graph: Graph, tensors: Collection[str], wire: str
) -> dict[str, float]:
    """By tensor, the bytes of its payload over the most that the format may take, in the mean.

    Args:
        samples: Inputs of the network; the first few are run.
        graph: A quantised one's tensors are compressed as their codes.
        tensors: Names of tensors between layers, and of inputs.
        wire: A format that compresses.
    """
    formats = travel_formats(graph, dict.fromkeys(tensors, wire))
    grids = graph.remember(find_grids)
    model = WholeModel(graph, tensors)
    sizes = dict.fromkeys(tensors, 0)
    chosen = samples[:_MOST_SAMPLES]
    for feeds in chosen:
        arrays = {**feeds, **model.run(feeds)}
        for name in tensors:
            grid = grids.get(name) if read_format(formats[name]).has_codes else None
            sizes[name] += len(encode_array(arrays[name], formats[name], grid))
    return {
        name: size / len(chosen) / _most(graph, name, formats[name]) for name, size in sizes.items()
    }


def _most(graph: Graph, name: str, wire: str) -> int:
    spec = graph.tensors[name]
    return max(1, most_bytes(spec.shape, spec.dtype, wire))
