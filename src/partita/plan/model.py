"""The decision how to divide a network, as plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

from partita.regions import LayerBits, Region

#: Plans of version 1 have no bits.
SCHEMA_VERSION = 2

SplitAxis = Literal[
    "none", "everywhere", "rows", "tiles", "output_channels", "input_channels", "replica"
]


class Shard(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One device's part of a stage.

    Attributes:
        boxes: For ``rows``, ``tiles`` and ``output_channels``: the owned box of every stage output.
            For a stage with ``merge``: the box of the core's *input* that this shard sums over.
            Empty for ``none``, ``everywhere`` and ``replica``, where a shard is the whole stage.
    """

    device: str
    boxes: dict[str, Region] = {}


class Stage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Layers that run as one step on each of their devices.

    Attributes:
        layers: Layer names, closed under dependency with the stages before.
        merge: Who adds partial results: shards with owned boxes of the stage output, or with no
            boxes for the whole output on each named device. A stage with ``merge`` holds one
            layer whose core is linear in the split input (convolution, matrix product) or a mean,
            sum or maximum over the split axes.
        shares: For ``replica``: how many requests each shard takes of as many in a row as all the
            shares add up to, while it keeps up. Without them the shard with the fewest unanswered
            requests takes the next one.
    """

    name: str
    layers: tuple[str, ...]
    axis: SplitAxis
    shards: tuple[Shard, ...]
    merge: tuple[Shard, ...] = ()
    shares: tuple[int, ...] = ()


class Identity(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Name for people and hash for machines of a model or cluster.

    Attributes:
        path: File that it was read from, as it was given; empty when it came from memory.
    """

    name: str
    hash: str
    path: str = ""


class Asked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What was asked of a planner beside the plan's own objective, seed, pins and requests.

    How long the search might take is not kept: whoever plans anew has time of their own.

    Attributes:
        wires: Wire formats that were given; the plan's own are those that came of it.
        devices: Those that may compute; all that do when None.
        max_evaluations: Most plans that might be priced; None for the usual number.
        axes: Along which stages may be divided; all when None.
        compress: Wire format that tensors may travel in where it is faster; None keeps them raw.
        energy_limits: Most joules of one request, by device.
        method: Settings of single methods: values by ``planner.setting``, as text.
        simple: Whether a coarser plan was preferred to the best one.
        swap: Whether devices that swap may hold more than their memory.
        integer_kernels: Whether what planners quantise runs on the engine's integer kernels.
        accuracy_drop: Most that might be lost of the network's accuracy, as a part of it; None
            where that was not judged.
        samples: Where the samples lie that accuracy was judged on, and ranges found from.
        judge: The user's function that judged, as ``MODULE:FUNCTION``; empty for the usual judge.
        measure: What errors were gone by, where one was named; empty for the usual one.
    """

    wires: dict[str, str] = {}
    devices: tuple[str, ...] | None = None
    max_evaluations: int | None = None
    axes: tuple[str, ...] | None = None
    compress: str | None = None
    energy_limits: dict[str, float] = {}
    method: dict[str, str] = {}
    simple: bool = False
    swap: bool = False
    integer_kernels: bool = False
    accuracy_drop: float | None = None
    samples: tuple[str, ...] = ()
    judge: str = ""
    measure: str = ""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The complete decision.

    Attributes:
        model: Hash of the normalised graph; of the quantised one where there are bits.
        cluster: Hash of the cluster's structure (device and link names, not measured values).
        wires: Wire format of each tensor that does not travel ``raw``.
        keep_on: Tensors that must not leave a device: tensor name to device name.
        bits: With how many bits layers compute, and inputs of the network are rounded, by name;
            layers that are not named compute as the model does.
        integer_kernels: Whether layers of 8 bits at most run on the engine's integer kernels.
        fallback: What the requester goes on with alone when others are lost; it lies in memory
            beside the plan. It has bits and a model's hash of its own.
        accuracy: Of a fallback, as it was judged when it was planned.
        options: What else was asked, for planning anew; None for a plan that no planner made, or
            that is from before this was kept: ``wires`` then are what was asked.
    """

    model: Identity
    cluster: Identity
    stages: tuple[Stage, ...]
    planner: str
    objective: str = "latency"
    seed: int = 0
    wires: dict[str, str] = {}
    in_flight: int = 1
    keep_on: dict[str, str] = {}
    bits: dict[str, LayerBits] = {}
    integer_kernels: bool = False
    fallback: Plan | None = None
    accuracy: float | None = None
    options: Asked | None = None
    schema: int = msgspec.field(default=SCHEMA_VERSION)

    @property
    def may_swap(self) -> bool:
        """Whether devices that can swap may hold more than their memory."""
        return self.options is not None and self.options.swap
