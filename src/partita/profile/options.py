"""What is asked of a measurement, and what of it is done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from partita.errors import ClusterError
from partita.files import read_regular
from partita.graph import Graph
from partita.profile.bench import Bench
from partita.profile.data import LayerProfile, write_atomically

#: Called with the number of segments done, how many there are, and what comes next.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class MeasureOptions:
    """How a model is measured.

    Attributes:
        provider: ONNX Runtime's execution provider.
        rows: ``few`` measures six extents per layer or more, several layers together; ``all``
            every number of rows, each layer alone.
        repeats: Most runs of one fragment.
        rounds: Parts that the runs are divided in, apart in time, so that some are quiet.
        budget_s: Fragments that take long are run less often, so that one takes about this long.
        integer: Whether layers are measured with 8 bits on integer kernels, too.
        unfinished: File that keeps what is done when a measurement is interrupted, and from which
            the next one goes on; None keeps nothing.
    """

    device: str = "this-machine"
    threads: int = 1
    provider: str = "CPUExecutionProvider"
    rows: Literal["few", "all"] = "few"
    repeats: int = 15
    rounds: int = 3
    budget_s: float = 0.6
    integer: bool = False
    unfinished: Path | None = None


class Border(msgspec.Struct, array_like=True):
    """A conversion at a fragment's border."""

    size_bytes: int
    seconds: float


class Wall(msgspec.Struct, array_like=True):
    """A fragment timed from outside, beside the sum of its nodes; the least of all runs each."""

    seconds: float
    nodes_s: float
    layers: int


class Alone(msgspec.Struct, array_like=True):
    """A fragment of one layer, run in turn with others; the median of all runs.

    Attributes:
        layer_s: What the layer takes among others.
        read_bytes: Of its input.
        write_bytes: Of its output.
        blocked: Whether the engine converts them into its own layout.
        weight_bytes: Of its weights.
    """

    seconds: float
    layer_s: float
    read_bytes: int
    write_bytes: int
    blocked: bool
    weight_bytes: int = 0


class Loading(msgspec.Struct, array_like=True):
    """A fragment made ready."""

    weight_bytes: int
    seconds: float


class MeasureState(msgspec.Struct):
    """What is measured so far.

    Attributes:
        key: Hash of model, options and engine; another key makes the rest worthless.
        whole_s: The whole network as one fragment; 0 where it is too large.
        reference_s: The pace that all times are brought to.
    """

    key: str
    layers: dict[str, LayerProfile] = {}
    enter: list[Border] = []
    leave: list[Border] = []
    walls: list[Wall] = []
    loads: list[Loading] = []
    alone: list[Alone] = []
    whole_s: float | None = None
    reference_s: float = 0.0


def state_key(graph: Graph, options: MeasureOptions, bench: Bench) -> str:
    """The key that must be equal for an unfinished measurement to go on."""
    parts = (
        graph.hash,
        *(bench.facts.engine, bench.facts.machine, bench.threads, bench.provider),
        options.rows,
        options.repeats,
        options.rounds,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def load_state(graph: Graph, options: MeasureOptions, bench: Bench) -> MeasureState:
    """The state of an interrupted measurement with the same key, else an empty one.

    Raises:
        ClusterError: The file of the unfinished measurement cannot be read.
    """
    key = state_key(graph, options, bench)
    if options.unfinished is None or not options.unfinished.exists():
        return MeasureState(key)
    try:
        state = msgspec.json.decode(read_regular(options.unfinished), type=MeasureState)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(
            f"Unfinished measurement {str(options.unfinished)!r} cannot be read: {error}."
            " Delete it to start again.",
            subject=str(options.unfinished),
        ) from error
    return state if state.key == key else MeasureState(key)


def save_state(state: MeasureState, options: MeasureOptions) -> None:
    """Keep what is done, where the options name a file."""
    if options.unfinished is not None:
        write_atomically(options.unfinished, msgspec.json.encode(state))
