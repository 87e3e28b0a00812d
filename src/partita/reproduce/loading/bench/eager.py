"""A model as eager PyTorch has it: modules, and checkpoints of their weights."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt
import torch
from torch import Tensor, nn

from partita.errors import BundleError
from partita.loading.personal.operators import OPERATORS
from partita.reproduce.loading.bench.chain import run_all

Array = npt.NDArray[Any]
Weights = dict[str, Tensor]
NETWORK, CHECKPOINT, SAFETENSORS = "network.json", "whole.pt", "whole.safetensors"


class Layer(msgspec.Struct, frozen=True):
    """One module, and where its inputs come from.

    Attributes:
        op: ONNX's name of what it does.
        inputs: Names of the tensors it is given, in ONNX's order; None for the next of its weights.
        weights: Shape and type of each of its weights.
    """

    op: str
    inputs: tuple[str | None, ...]
    output: str
    attrs: dict[str, Any] = {}
    weights: tuple[tuple[tuple[int, ...], str], ...] = ()


class _Module(nn.Module):
    """One layer's weights, and the operator that uses them."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        if layer.op not in OPERATORS:
            raise BundleError(
                f"Operator {layer.op} has no module here; allowed: {', '.join(OPERATORS)}.",
                subject=layer.op,
            )
        self._operator = OPERATORS[layer.op]
        self._layer = layer
        for place, (shape, dtype) in enumerate(layer.weights):
            empty = torch.empty(shape, dtype=getattr(torch, dtype))
            self.register_parameter(_name(place), nn.Parameter(empty, requires_grad=False))

    def forward(self, held: Mapping[str, Tensor]) -> Tensor:
        weights = iter(self._parameters.values())
        names = self._layer.inputs
        args = [next(weights) if name is None else held.get(name) for name in names]
        return self._operator(args, self._layer.attrs)


class Network(nn.Module):
    """Layers one after the other, each given earlier ones' tensors; one input, one output.

    Raises:
        BundleError: An operator has no module.

    Attributes:
        parts_s: Seconds in which each checkpoint was read.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.parts_s: list[float] = []
        self.layers = nn.ModuleList(map(_Module, layers))
        self._specs = tuple(layers)
        read = [tuple(name for name in layer.inputs if name) for layer in layers]
        last = {name: place for place, names in enumerate(read) for name in names}
        self._frees = tuple(
            tuple(name for name in dict.fromkeys(names) if last[name] == place)
            for place, names in enumerate(read)
        )
        self._input = read[0][0]

    def forward(self, x: Tensor) -> Tensor:
        """The last layer's output."""
        held = {self._input: x}
        for layer, module, frees in zip(self._specs, self.layers, self._frees, strict=True):
            held[layer.output] = module(held)
            for name in frees:
                del held[name]
        return held[self._specs[-1].output]

    def run(self, names: None, feeds: Mapping[str, Array]) -> list[Array]:
        """The output for one input, as sessions do."""
        (array,) = feeds.values()
        with torch.inference_mode():
            return [self(torch.from_numpy(array)).numpy()]


def _name(place: int) -> str:
    return f"weight{place}"


def set_threads(threads: int) -> None:
    """Let PyTorch use so many threads within one operator."""
    torch.set_num_threads(threads)


def write_network(
    layers: Sequence[Layer], weights: Sequence[Sequence[Array]], starts: Sequence[int], folder: Path
) -> list[Path]:
    """Write the network, a checkpoint of all its weights, and one per child; return all files.

    Where Safetensors is installed, all weights are written in its format, too.

    Args:
        weights: Of each layer, in ONNX's order.
        starts: Numbers of layers with which children begin; none writes no child.
        folder: It is there.

    Raises:
        BundleError: An operator has no module.
    """
    Network(layers)
    states: list[Weights] = [
        {
            f"layers.{place}.{_name(number)}": torch.from_numpy(array.copy())
            for number, array in enumerate(arrays)
        }
        for place, arrays in enumerate(weights)
    ]
    ranges = {CHECKPOINT: (0, len(layers))}
    ranges |= {
        f"child-{number}.pt": borders
        for number, borders in enumerate(pairwise((*starts, len(layers))) if starts else ())
    }
    (folder / NETWORK).write_bytes(msgspec.json.encode(tuple(layers)))
    for name, (start, stop) in ranges.items():
        torch.save(_joined(states[start:stop]), folder / name)
    names = [NETWORK, *ranges]
    if find_spec("safetensors") is not None:
        from safetensors.torch import save_file

        save_file(_joined(states), folder / SAFETENSORS)
        names.append(SAFETENSORS)
    return [folder / name for name in names]


def _joined(states: Sequence[Weights]) -> Weights:
    return {key: state[key] for state in states for key in state}


def load_network(
    folder: Path,
    *,
    mmap: bool = False,
    safetensors: bool = False,
    children: int = 0,
    in_turn: bool = False,
) -> Network:
    """The network with its weights, ready to answer.

    Args:
        mmap: Whether the checkpoint is mapped, not read.
        safetensors: Whether the weights come from the file of Safetensors.
        children: So many checkpoints are loaded, a thread each; 0 for the one of all weights.
        in_turn: Whether they are loaded one after the other.
    """
    layers = msgspec.json.decode((folder / NETWORK).read_bytes(), type=tuple[Layer, ...])
    with torch.device("meta"):  # no time goes into weights that are replaced
        network = Network(layers)
    names = [f"child-{number}.pt" for number in range(children)] or [CHECKPOINT]
    states: list[Weights] = [{} for _ in names]
    network.parts_s = [0.0] * len(names)

    def load(place: int) -> None:
        began_s = time.perf_counter()
        states[place] = _read(folder / (SAFETENSORS if safetensors else names[place]), mmap=mmap)
        network.parts_s[place] = time.perf_counter() - began_s

    run_all(load, len(names), in_turn=in_turn)
    network.load_state_dict(_joined(states), assign=True)
    return network.eval()


def _read(path: Path, *, mmap: bool) -> Weights:
    if path.name == SAFETENSORS:
        from safetensors.torch import load_file

        weights: Weights = load_file(path)
    else:
        weights = torch.load(path, mmap=mmap, weights_only=True)
    return weights
