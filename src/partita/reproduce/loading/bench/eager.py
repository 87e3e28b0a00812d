"""A model as eager PyTorch has it: modules, and checkpoints of their weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy.typing as npt
import torch
from torch import Tensor, nn

from partita.errors import BundleError
from partita.reproduce.loading.bench.chain import run_all

Array = npt.NDArray[Any]
Weights = dict[str, Tensor]
NETWORK, CHECKPOINT, SAFETENSORS = "network.json", "whole.pt", "whole.safetensors"
_NAMES = {"BatchNormalization": ("weight", "bias", "running_mean", "running_var")}


class Layer(msgspec.Struct, frozen=True):
    """One module, and where its inputs come from.

    Attributes:
        op: ONNX's name of what it does.
        inputs: Names of the tensors it is given.
        output: Name of what it makes.
        attrs: ONNX's attributes.
        shapes: Extents of its weights, in ONNX's order.
    """

    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: dict[str, Any] = {}
    shapes: tuple[tuple[int, ...], ...] = ()

    def pair(self, key: str, default: int) -> tuple[int, int]:
        """Return an attribute of two extents."""
        high, wide = self.attrs.get(key, (default, default))
        return int(high), int(wide)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros around an image.

        Raises:
            BundleError: They are not the same on both sides.
        """
        top, left, bottom, right = self.attrs.get("pads", (0, 0, 0, 0))
        if (top, left) != (bottom, right):
            raise BundleError(f"Layer '{self.output}' has uneven zeros; allowed: even ones.")
        return top, left


class Network(nn.Module):
    """Layers one after the other, each given earlier ones' tensors; one input, one output.

    Attributes:
        parts_s: Seconds in which each checkpoint was read.
    """

    def __init__(self, specs: Sequence[Layer]) -> None:
        super().__init__()
        self.parts_s: list[float] = []
        self.specs = tuple(specs)
        self.layers = nn.ModuleList(_make(spec) for spec in specs)
        last = {name: place for place, spec in enumerate(specs) for name in spec.inputs}
        self._frees = tuple(
            tuple(name for name in dict.fromkeys(spec.inputs) if last[name] == place)
            for place, spec in enumerate(specs)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's output."""
        held = {self.specs[0].inputs[0]: x}
        for spec, layer, frees in zip(self.specs, self.layers, self._frees, strict=True):
            held[spec.output] = layer(*(held[name] for name in spec.inputs))
            for name in frees:
                del held[name]
        return held[self.specs[-1].output]

    def run(self, names: None, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the output for one input, as sessions do."""
        (array,) = feeds.values()
        with torch.inference_mode():
            return [self(torch.from_numpy(array)).numpy()]


class _Joined(nn.Module):
    """What takes several tensors."""

    def __init__(self, join: Callable[[Sequence[Tensor]], Tensor]) -> None:
        super().__init__()
        self._join = join

    def forward(self, *tensors: Tensor) -> Tensor:
        return self._join(tensors)


def _conv(spec: Layer) -> nn.Module:
    out, within, *kernel = spec.shapes[0]
    groups = int(spec.attrs.get("group", 1))
    return nn.Conv2d(
        within * groups,
        out,
        (kernel[0], kernel[1]),
        spec.pair("strides", 1),
        spec.padding,
        groups=groups,
        bias=len(spec.shapes) > 1,
    )


def _linear(spec: Layer) -> nn.Module:
    out, within = spec.shapes[0]
    return nn.Linear(within, out, bias=len(spec.shapes) > 1)


def _max_pool(spec: Layer) -> nn.Module:
    ceil = bool(spec.attrs.get("ceil_mode", 0))
    return nn.MaxPool2d(
        spec.pair("kernel_shape", 1), spec.pair("strides", 1), spec.padding, ceil_mode=ceil
    )


def _average_pool(spec: Layer) -> nn.Module:
    return nn.AvgPool2d(
        spec.pair("kernel_shape", 1),
        spec.pair("strides", 1),
        spec.padding,
        count_include_pad=bool(spec.attrs.get("count_include_pad", 0)),
    )


def _slope(spec: Layer) -> nn.Module:
    return nn.PReLU(spec.shapes[0][0])


def _pack(x: Tensor, block: int) -> Tensor:
    """Move blocks of pixels into channels, in ONNX's order."""
    count, channels, high, wide = x.shape
    x = x.reshape(count, channels, high // block, block, wide // block, block)
    x = x.permute(0, 3, 5, 1, 2, 4)
    return x.reshape(count, channels * block**2, high // block, wide // block)


def _unpack(x: Tensor, block: int) -> Tensor:
    """Move channels into blocks of pixels, in ONNX's order."""
    count, channels, high, wide = x.shape
    x = x.reshape(count, block, block, channels // block**2, high, wide)
    x = x.permute(0, 3, 4, 1, 5, 2)
    return x.reshape(count, channels // block**2, high * block, wide * block)


def _moved(spec: Layer, move: Callable[[Tensor, int], Tensor]) -> nn.Module:
    block = int(spec.attrs["blocksize"])
    return _Joined(lambda parts: move(parts[0], block))


_MAKERS: dict[str, Callable[[Layer], nn.Module]] = {
    "Add": lambda spec: _Joined(lambda pair: pair[0] + pair[1]),
    "AveragePool": _average_pool,
    "BatchNormalization": lambda spec: nn.BatchNorm2d(
        spec.shapes[0][0], float(spec.attrs.get("epsilon", 1e-5))
    ),
    "Concat": lambda spec: _Joined(lambda parts: torch.cat(list(parts), 1)),
    "Conv": _conv,
    "DepthToSpace": lambda spec: _moved(spec, _unpack),
    "Flatten": lambda spec: nn.Flatten(),
    "Gemm": _linear,
    "GlobalAveragePool": lambda spec: nn.AdaptiveAvgPool2d(1),
    "MaxPool": _max_pool,
    "PRelu": _slope,
    "Relu": lambda spec: nn.ReLU(),
    "SpaceToDepth": lambda spec: _moved(spec, _pack),
}


def _make(spec: Layer) -> nn.Module:
    if spec.op not in _MAKERS:
        raise BundleError(
            f"Operator {spec.op} has no module here; allowed: {', '.join(_MAKERS)}.",
            subject=spec.op,
        )
    return _MAKERS[spec.op](spec)


def set_threads(threads: int) -> None:
    """Let PyTorch use so many threads within one operator."""
    torch.set_num_threads(threads)


def write_network(
    specs: Sequence[Layer], weights: Sequence[Sequence[Array]], starts: Sequence[int], folder: Path
) -> list[Path]:
    """Write the network, a checkpoint of all its weights, and one per child; return all files.

    Where Safetensors is installed, all weights are written in its format, too.

    Args:
        specs: The layers.
        weights: Of each layer, in ONNX's order.
        starts: Numbers of layers with which children begin; none writes no child.
        folder: It is there.

    Raises:
        BundleError: An operator has no module.
    """
    Network(specs)
    states = [_state(place, spec, weights[place]) for place, spec in enumerate(specs)]
    ranges = {CHECKPOINT: (0, len(specs))}
    ranges |= {
        f"child-{number}.pt": borders
        for number, borders in enumerate(pairwise((*starts, len(specs))) if starts else ())
    }
    (folder / NETWORK).write_bytes(msgspec.json.encode(tuple(specs)))
    for name, (start, stop) in ranges.items():
        chosen: Weights = {key: one[key] for one in states[start:stop] for key in one}
        torch.save(chosen, folder / name)
    names = [NETWORK, *ranges]
    if find_spec("safetensors") is not None:
        from safetensors.torch import save_file

        save_file({key: one[key] for one in states for key in one}, folder / SAFETENSORS)
        names.append(SAFETENSORS)
    return [folder / name for name in names]


def _state(place: int, spec: Layer, weights: Sequence[Array]) -> Weights:
    names = _NAMES.get(spec.op, ("weight", "bias"))
    state = {
        f"layers.{place}.{name}": torch.from_numpy(array.copy())
        for name, array in zip(names, weights, strict=False)
    }
    if spec.op == "PRelu":
        state = {key: slopes.flatten() for key, slopes in state.items()}
    if spec.op == "BatchNormalization":
        state[f"layers.{place}.num_batches_tracked"] = torch.tensor(0)
    return state


def load_network(
    folder: Path,
    *,
    mmap: bool = False,
    safetensors: bool = False,
    children: int = 0,
    in_turn: bool = False,
) -> Network:
    """Return the network with its weights, ready to answer.

    Args:
        folder: Where it was written.
        mmap: Whether the checkpoint is mapped, not read.
        safetensors: Whether the weights come from the file of Safetensors.
        children: So many checkpoints are loaded, a thread each; 0 for the one of all weights.
        in_turn: Whether they are loaded one after the other.
    """
    specs = msgspec.json.decode((folder / NETWORK).read_bytes(), type=tuple[Layer, ...])
    with torch.device("meta"):  # no time goes into weights that are replaced
        network = Network(specs)
    names = [f"child-{number}.pt" for number in range(children)] or [CHECKPOINT]
    found: list[Weights] = [{} for _ in names]
    network.parts_s = [0.0] * len(names)

    def load(place: int) -> None:
        began_s = time.perf_counter()
        if safetensors:
            found[place] = _read_safetensors(folder / SAFETENSORS)
        else:
            path = folder / names[place]
            found[place] = cast(Weights, torch.load(path, mmap=mmap, weights_only=True))
        network.parts_s[place] = time.perf_counter() - began_s

    run_all(load, len(names), in_turn=in_turn)
    network.load_state_dict({key: one[key] for one in found for key in one}, assign=True)
    return network.eval()


def _read_safetensors(path: Path) -> Weights:
    from safetensors.torch import load_file

    found: Weights = load_file(path)
    return found
