"""What is timed for a profile, and what came out: the same here and over a wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from partita.program import TensorSpec


class TimedFragment(msgspec.Struct, frozen=True):
    """One fragment to be timed.

    Attributes:
        graph: SHA-256 of its graph.
        blobs: SHA-256 of each weight blob.
        inputs: Its inputs.
        timed: Whether it is timed from outside, too, where fragments are not run in turn.
    """

    graph: str
    blobs: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    timed: bool = True


class TimingOrder(msgspec.Struct, frozen=True):
    """Fragments to be timed together, and how often.

    Attributes:
        repeats: Most runs of one fragment.
        rounds: Parts that the runs are divided in, apart in time, so that some are quiet.
        budget_s: Fragments that take long are run less often, so that one takes about this long.
        in_turn: Whether they run one after the other, as a request has them, timed from outside.
    """

    fragments: tuple[TimedFragment, ...]
    repeats: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    rounds: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    budget_s: Annotated[float, msgspec.Meta(ge=0, le=3600)]
    in_turn: bool = False


class NodeTime(msgspec.Struct, frozen=True, array_like=True):
    """One node of one run.

    Attributes:
        name: As the engine names it.
        op: Its operator.
        shape: Of its first output; empty where the engine does not tell.
    """

    name: str
    op: str
    seconds: float
    output_bytes: int
    shape: tuple[int, ...]


class FragmentTimes(msgspec.Struct, frozen=True):
    """What one fragment took.

    Attributes:
        load_s: Making its session.
        walls: Seconds of each run, timed from outside.
        used: Processor seconds of each profiled run, all beside its nodes included.
        runs: The nodes of each profiled run.
    """

    load_s: float
    walls: tuple[float, ...]
    used: tuple[float, ...] = ()
    runs: tuple[tuple[NodeTime, ...], ...] = ()


class Timings(msgspec.Struct, frozen=True):
    """What an order's fragments took, and what the reference did meanwhile.

    Attributes:
        paces: Seconds of the reference, before, between and after.
    """

    fragments: tuple[FragmentTimes, ...]
    paces: tuple[float, ...]


class WireTimes(msgspec.Struct, frozen=True):
    """Pairs of bytes in memory and seconds, of encoding and of decoding."""

    encode: tuple[tuple[int, float], ...]
    decode: tuple[tuple[int, float], ...]


class MachineTimes(msgspec.Struct, frozen=True):
    """What a machine takes for work that no fragment does.

    Attributes:
        machine: Processor and system, as the system names them.
        engine: Name and version.
        reference_s: Typical seconds of the reference.
        copy_s_per_byte: Of an addition of two arrays, per byte read or written.
        wires: By wire format.
    """

    machine: str
    engine: str
    reference_s: float
    copy_s_per_byte: float
    wires: dict[str, WireTimes]
