"""Blocks: what a model is cut from when it is divided into children, and what each one costs."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from partita.errors import BundleError, ClusterError
from partita.files import read_regular
from partita.graph import Graph
from partita.loading.write.trainable_layers import first_trainable
from partita.naming import NAME_RULE, is_name
from partita.profile.data import write_atomically

SCHEMA = 1
#: What all bytes that cross borders weigh beside the imbalance of the blocks. Not tuned: a quarter
#: moves a border to a narrow place nearby, and makes no block much larger than another.
_CROSSING_WEIGHT = 0.25

Floats = npt.NDArray[np.float64]


class Block(msgspec.Struct, frozen=True):
    """Layers that are never divided, and what they add to the child that holds them.

    Attributes:
        name: Of its first layer.
        first: Index of its first layer in the graph's order.
        stop: Index after its last one.
        weight_bytes: Its weights, as they lie in the file of weights.
        create_s: Creating the engine's session: graph optimised, weights mapped, not prepacked.
        prepack_s: What prepacking the weights adds to that.
        read_warm_s: Touching all its weights where they lie in the page cache.
        read_cold_s: The same where they lie on disk alone.
        infer_s: A run, when all is settled.
        first_s: The first run; it maps the weights page by page.
    """

    name: str
    first: int
    stop: int
    weight_bytes: int
    create_s: float
    prepack_s: float
    read_warm_s: float
    read_cold_s: float
    infer_s: float
    first_s: float
    trainable: bool = False

    def load_s(self, *, cold: bool = False, prepack: bool = False, mapped: bool = False) -> float:
        """The seconds it adds to loading a child: to the session, and its weights' reading.

        Args:
            cold: Whether weights are on disk.
            mapped: Whether they are left to be read when they are used.
        """
        read_s = 0.0 if mapped else self.read_cold_s if cold else self.read_warm_s
        return self.create_s + read_s + (self.prepack_s if prepack else 0.0)

    def compute_s(self, *, mapped: bool = False) -> float:
        """The seconds of its first run; the weights are in memory, mapped or not yet."""
        return max(self.infer_s, self.first_s - (0.0 if mapped else self.read_warm_s))


class BlockProfile(msgspec.Struct, frozen=True):
    """A model's blocks as measured on one machine.

    Attributes:
        tuned: Whether children were optimised for this machine's processor.
        blocks: In the order of the layers, none left out.
        child_load_s: What one more child adds to loading.
        child_run_s: What one more child adds to a run.
        contention: How many times longer creating a session takes while another one is created;
            at least 1.
        cold_contention: The same where both read their weights from disk, too.
        read_bytes_per_s: Rate at which weights are read from disk.
    """

    model: str
    model_hash: str
    engine: str
    threads: int
    tuned: bool
    blocks: tuple[Block, ...]
    child_load_s: float
    child_run_s: float
    contention: float
    cold_contention: float
    read_bytes_per_s: float
    device: str = "this-machine"
    processor: str = ""
    schema: int = SCHEMA

    @property
    def last_start(self) -> int:
        """The last block with which the last child may begin: it must hold all trainable ones."""
        places = [place for place, block in enumerate(self.blocks) if block.trainable]
        return min((*places, len(self.blocks) - 1))

    @property
    def first_trainable(self) -> int:
        """The first layer of the first block that may be trained; 0 also where there is none."""
        is_any = any(block.trainable for block in self.blocks)
        return self.blocks[self.last_start].first if is_any else 0

    def layer_ends(self, ends: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of layers for numbers of blocks before which children end."""
        return tuple(self.blocks[end - 1].stop for end in ends)


def save_blocks(profile: BlockProfile, path: str | Path) -> None:
    """Write the profile to ``path`` as JSON, whole or not at all.

    Raises:
        ClusterError: The file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(profile, order="sorted"), indent=1)
    write_atomically(Path(path), text + b"\n")


def load_blocks(path: str | Path) -> BlockProfile:
    """The profile in a file; equal to the one that was saved.

    Raises:
        ClusterError: The file is missing, no profile of blocks, or of another schema version.
    """
    name = f"Profile of blocks {str(path)!r}"
    try:
        data = read_regular(Path(path))
        version = msgspec.json.decode(data, type=dict).get("schema")
        if version != SCHEMA:
            raise ClusterError(
                f"{name}, key 'schema': got {version}, this version of Partita reads {SCHEMA}."
                " Measure again.",
                subject=name,
            )
        profile = msgspec.json.decode(data, type=BlockProfile)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {error.strerror}.", subject=name) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"{name} is none: {error}.", subject=name) from error
    _check(name, profile)
    return profile


def _check(name: str, profile: BlockProfile) -> None:
    """Raise where blocks do not follow each other, or a figure cannot have been measured."""
    if not is_name(profile.device):
        raise ClusterError(
            f"{name} is of device '{profile.device}'; allowed: {NAME_RULE}.", subject=name
        )
    blocks = profile.blocks
    stops = (0, *(block.stop for block in blocks))
    if not blocks or any(
        block.first != start or block.stop <= start
        for block, start in zip(blocks, stops, strict=False)
    ):
        raise ClusterError(f"{name} has blocks that do not follow each other.", subject=name)
    figures = [profile.child_load_s, profile.child_run_s]
    for block in blocks:
        figures += [block.create_s, block.prepack_s, block.read_warm_s, block.read_cold_s]
        figures += [block.infer_s, block.first_s]
    if min(figures) < 0 or min(profile.contention, profile.cold_contention) < 1:
        raise ClusterError(
            f"{name} has a time below 0 s or a contention below 1: allowed are more.", subject=name
        )


def choose_borders(graph: Graph, most_blocks: int, trainable: tuple[str, ...] = ()) -> list[int]:
    """The numbers of layers before which blocks end; the last one is all layers.

    Blocks are as even as can be in weights and work, and few bytes cross their borders: the sum of
    squared shares, and of the crossing bytes by their mean, is least. A border lies before the
    first trainable layer.

    Args:
        most_blocks: Blocks wanted; a model of fewer layers gets one per layer.

    Raises:
        BundleError: Fewer than one block is asked for, or a trainable layer is unknown.
    """
    total = len(graph.layers)
    if most_blocks < 1:
        raise BundleError(f"{most_blocks} blocks: allowed are 1 to {total}.")
    forced = first_trainable(graph, trainable)
    count = min(total, max(most_blocks, 2 if forced else 1))
    shares = np.array([0.0, *accumulate(_shares(graph))])
    crossing = np.array([cut.bytes for cut in graph.cuts()], np.float64)
    crossing *= _CROSSING_WEIGHT / count / max(1.0, crossing[1:-1].mean() if total > 1 else 1.0)
    return _divide(shares, crossing, count, forced)


def _shares(graph: Graph) -> list[float]:
    """The mean of each layer's share of weights, of work, and of the number of layers."""
    layers = graph.layers
    weights = sum(layer.weight_bytes for layer in layers) or 1
    work = sum(layer.macs for layer in layers) or 1
    return [
        (layer.weight_bytes / weights + layer.macs / work + 1 / len(layers)) / 3 for layer in layers
    ]


def _divide(shares: Floats, crossing: Floats, count: int, forced: int) -> list[int]:
    """``count`` ends of least cost, one of them at ``forced``; by dynamic programming."""
    total = len(shares) - 1
    places = np.arange(total + 1)
    squares = (shares[None, :] - shares[:, None]) ** 2 * count
    # costs[start, stop]: of a block; it may not be empty, nor lie on both sides of the forced end.
    straddles = (places[:, None] < forced) & (places[None, :] > forced)
    costs = np.where((places[:, None] >= places[None, :]) | straddles, np.inf, squares)
    costs = costs + np.where(places < total, crossing, 0.0)[None, :]
    reached = np.full(total + 1, np.inf)
    reached[0] = 0.0
    came: list[npt.NDArray[np.intp]] = []
    for _ in range(count):
        sums = reached[:, None] + costs
        came.append(sums.argmin(axis=0))
        reached = sums.min(axis=0)
    ends = [total]
    for back in reversed(came[1:]):
        ends.append(int(back[ends[-1]]))
    assert all(a > b for a, b in pairwise(ends))
    return ends[::-1]
