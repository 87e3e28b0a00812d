"""A residual network's separable form, with the weights that fit (section 3.1).

Every group keeps the whole width between blocks, and a share of the channels inside them: the first
convolution of a block is divided by its outputs and the last by its inputs, which keeps all of
their weights. Between them a grouped convolution is divided by its paths, and one that mixes all
channels keeps the blocks on the diagonal of its weights. So each group's sum holds the part of a
block that its own channels give; what the other groups' give has to come by messages and training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from partita.errors import ModelError
from partita.separable.converted import Converted
from partita.separable.read import ReadNetwork, Weights
from partita.separable.residual import AnyLayer, Block, Conv, Norm

Array = npt.NDArray[np.float32]
_LEARNED = ("weight", "bias")
_RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True)
class Conversion:
    """A network in groups.

    Attributes:
        kept: Learned numbers of the given network that are in it, some of them in every group.
        given: Learned numbers of the given network.
    """

    network: Converted
    weights: Weights
    kept: int
    given: int


def convert(source: ReadNetwork, groups: int) -> Conversion:
    """A network's separable form for so many groups.

    Raises:
        ModelError: A block does not allow it; the message names it.
    """
    network = source.network
    for block in network.chain:
        _check_form(block, source.names[block.name])
    common = math.gcd(*(count for block in network.chain for count in _divided(block)))
    if groups < 1 or common % groups:
        _refuse_groups(source, groups, common)
    weights: Weights = {}
    chain = tuple(_convert_block(block, source.weights, groups, weights) for block in network.chain)
    apart = {layer.name for block in network.chain for layer in (*block.branch, *block.shortcut)}
    weights |= {k: v for k, v in source.weights.items() if k.rsplit(".", 1)[0] not in apart}
    mixing = (c for b in network.chain for c in _convolutions(b)[1:-1] if c.paths == 1)
    sizes = [source.weights[f"{conv.name}.weight"].size for conv in mixing]
    dropped = sum(size - size // groups for size in sizes)
    given = network.count_parameters()
    return Conversion(replace(network, chain=chain, groups=groups), weights, given - dropped, given)


def _convolutions(block: Block) -> list[Conv]:
    return [layer for layer in block.branch if isinstance(layer, Conv)]


def _check_form(block: Block, name: str) -> None:
    """Raise unless a block's first and last convolutions are two, and mix all channels."""
    convolutions = _convolutions(block)
    if len(convolutions) < 2:
        problem = "its branch is one convolution, which cannot lie apart; allowed are two or more"
    elif convolutions[0].paths > 1:
        problem = f"its first convolution has {convolutions[0].paths} groups, allowed is one"
    elif convolutions[-1].paths > 1:
        problem = f"its last convolution has {convolutions[-1].paths} groups, allowed is one"
    else:
        return
    raise ModelError(
        f"No separable form: the block that ends at '{name}': {problem}.", subject=name
    )


def _divided(block: Block) -> Iterator[int]:
    """What groups have to divide in a block."""
    first, *middle, _ = _convolutions(block)
    yield first.channels
    for conv in middle:
        yield conv.channels
        if conv.paths > 1:
            yield conv.paths


def _refuse_groups(source: ReadNetwork, groups: int, common: int) -> None:
    """Raise, and name the first block that does not allow so many groups."""
    allowed = [g for g in range(1, common + 1) if not common % g]
    words = f"groups = {groups}: allowed for '{source.network.name}' are"
    words += f" {', '.join(map(str, allowed))}"
    for block in source.network.chain:
        bad = next((count for count in _divided(block) if groups < 1 or count % groups), None)
        if bad is not None:
            name = source.names[block.name]
            raise ModelError(
                f"{words}: the block that ends at '{name}' has {bad} channels or paths to divide.",
                subject="groups",
            )


def _convert_block(block: Block, given: Weights, groups: int, weights: Weights) -> Block:
    """A block of one group; adds the weights of all groups."""
    convolutions = _convolutions(block)
    first, last = convolutions[0], convolutions[-1]
    layers: list[AnyLayer] = []
    is_whole, share = True, 1.0  # whether a group has all channels, and of a sum how much
    for layer in block.branch:
        if isinstance(layer, Conv):
            is_whole = layer is last
            dense = layer.paths == 1 and layer is not first
            share = 1 / groups if dense else 1.0
            weight = given[f"{layer.name}.weight"]
            if dense:
                weight = _of_own_inputs(weight, groups, is_whole=is_whole)
            weights[f"{layer.name}.weight"] = weight
            _take(given, weights, layer.name, ("bias",), copies=groups if is_whole else 1)
            layers.append(_of_one_group(layer, groups, is_last=is_whole))
            continue
        if isinstance(layer, Norm):
            copies = groups if is_whole else 1
            _take(given, weights, layer.name, _LEARNED, copies=copies)
            _take(given, weights, layer.name, _RUNNING, copies=copies, factor=share)
        layers.append(layer)
    for layer in block.shortcut:
        _take(given, weights, layer.name, (*_LEARNED, *_RUNNING), copies=groups)
    return msgspec.structs.replace(block, branch=tuple(layers))


def _of_one_group(conv: Conv, groups: int, *, is_last: bool) -> Conv:
    channels = conv.channels if is_last else conv.channels // groups
    paths = conv.paths if conv.paths == 1 else conv.paths // groups
    return msgspec.structs.replace(conv, channels=channels, paths=paths)


def _of_own_inputs(weight: Array, groups: int, *, is_whole: bool) -> Array:
    """Each group's weights on its own inputs, one group after the other.

    Args:
        is_whole: Whether every group makes all outputs; else its share of them.
    """
    parts = np.split(weight, groups, 1)
    if not is_whole:
        parts = [np.split(part, groups, 0)[group] for group, part in enumerate(parts)]
    return np.concatenate(parts)


def _take(
    given: Weights,
    weights: Weights,
    name: str,
    leaves: Iterable[str],
    *,
    copies: int,
    factor: float = 1.0,
) -> None:
    """What a layer has under these names, for each group, times a factor.

    Running statistics of a group's share of a sum are the sum's times that share, as of equal parts
    that do not depend on each other; training soon has its own.
    """
    for leaf in leaves:
        value = given.get(f"{name}.{leaf}")
        if value is not None:
            weights[f"{name}.{leaf}"] = np.concatenate([value * np.float32(factor)] * copies)
