"""Times of the layers that a quantised graph has and the profiled one has not."""

from __future__ import annotations

import msgspec

from partita.cost.amount import Amounts
from partita.profile import LayerProfile, Profile, Sample


def add_input_layers(profile: Profile, amounts: Amounts) -> Profile:
    """A profile with the layers that round inputs, which take what copying takes.

    Profiles are of the graph that a quantised one was made of; all its other layers bear the same
    names.
    """
    graph = amounts.graph
    if graph.base is None or profile.model_hash == graph.hash:
        return profile
    known = {layer.name for layer in graph.base.layers}
    added = {}
    for layer in graph.layers:
        if layer.name in known:
            continue
        amount = amounts.layers[layer.name]
        row_s = profile.runs.copy_s_per_byte * amount.moved_bytes / amount.rows
        extents = sorted({1, amount.rows})
        samples = tuple(Sample(rows, row_s * rows, 1, 0.0) for rows in extents)
        added[layer.name] = LayerProfile(amount.kind, amount.rows, False, samples)
    return msgspec.structs.replace(profile, layers={**profile.layers, **added})
