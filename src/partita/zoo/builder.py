"""Writes ONNX graphs layer by layer, with weights drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from partita.zoo.extents import Extents, slide, spread_over
from partita.zoo.weights import Array, DrawnWeights

OPSET = 17
#: The oldest file format that may carry opset 17, so that older runtimes read the files too.
IR_VERSION = 8

#: Mean square after an operator over the one before it, for inputs near the normal distribution.
#: Convolutions divide by it, so that the variance of every convolution's outputs is near one and
#: deep networks neither explode nor fade. For ReLU this is He et al. 2015 (variance 2/fan-in).
_MOMENT = {"Clip": 0.5, "Swish": 0.4, "MaxPool": 2.0, "Mean": 1.0, "Gate": 0.33}

#: The constants of response normalisation (Krizhevsky et al. 2012, section 3.3). ONNX divides
#: alpha by the channels summed over; the paper's 1e-4 is not divided.
_LRN_BIAS, _LRN_BETA = 2.0, 0.75


class Builder:
    """Collects the nodes and weights of one model.

    Every method appends nodes to one named layer and returns the name of the tensor that it makes.

    Args:
        weights: Where weights come from.
    """

    def __init__(self, name: str, *, weights: DrawnWeights | None = None) -> None:
        self._weights = weights or DrawnWeights(0)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._moments: dict[str, float] = {}
        self._means: dict[str, float] = {}  # where it is not 0 and sums keep it
        self._rectified: set[str] = set()
        self._sums: set[str] = set()
        self._added: set[str] = set()
        self._model = onnx.ModelProto(
            ir_version=IR_VERSION,
            producer_name="partita",
            opset_import=[helper.make_opsetid("", OPSET)],
        )
        self._graph = self._model.graph
        self._graph.name = name

    def add_input(self, name: str, shape: tuple[int, ...]) -> str:
        """Declare a float32 input; its values are taken to have a mean square near one."""
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self._graph.input.append(value)
        return self._remember(name, shape, 1.0)

    def conv(
        self,
        x: str,
        name: str,
        channels: int,
        *,
        kernel: Extents = 3,
        stride: Extents = 1,
        pad: Extents | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
        weights: str | None = None,
    ) -> str:
        """Add a convolution over all axes behind the channels; return its (N, channels, ...).

        Args:
            x: Input, (N, C, ...).
            kernel: Extent of the window.
            stride: Step of the window.
            pad: Zeros on both sides; as many as keep the extent at stride 1 unless given.
            dilation: Step inside the window.
            groups: Groups of channels that do not see each other.
            bias: Whether a number is added per channel.
            weights: What its weights are called, by which layers share them; ``name`` unless given.
        """
        batch, channels_in, *size = self.shapes[x]
        rank = len(size)
        window, step = spread_over(kernel, rank), spread_over(stride, rank)
        pads = spread_over(pad, rank) if pad is not None else [dilation * (k // 2) for k in window]
        own = weights or name
        shape = (channels, channels_in // groups, *window)
        deviation = 1 / math.sqrt(math.prod(shape[1:]) * self._moments[x])
        weight = self._weights.spread(f"{own}.weight", shape, deviation)
        inputs = [x, self._add_weight(f"{own}.weight", weight)]
        if bias:
            inputs.append(
                self._add_weight(f"{own}.bias", self._weights.small(f"{own}.bias", channels))
            )
        attributes = {"kernel_shape": window, "strides": step, "pads": [*pads, *pads]}
        if dilation > 1:
            attributes["dilations"] = [dilation] * rank
        self._add_node("Conv", inputs, name, group=groups, **attributes)
        extents = slide(size, [dilation * (k - 1) + 1 for k in window], step, (pads, pads))
        return self._remember(name, (batch, channels, *extents), 1.0)

    def conv_transpose(
        self, x: str, name: str, channels: int, *, kernel: int, stride: int, pad: int = 0
    ) -> str:
        """Add a square transposed convolution without bias; return its (N, channels, H, W)."""
        batch, channels_in, *size = self.shapes[x]
        shape = (channels_in, channels, kernel, kernel)
        fan_in = channels_in * kernel**2 / stride**2
        deviation = 1 / math.sqrt(fan_in * self._moments[x])
        weight = self._weights.spread(f"{name}.weight", shape, deviation)
        self._add_node(
            "ConvTranspose",
            [x, self._add_weight(f"{name}.weight", weight)],
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )
        extents = [(extent - 1) * stride + kernel - 2 * pad for extent in size]
        return self._remember(name, (batch, channels, *extents), 1.0)

    def batch_norm(
        self,
        x: str,
        name: str,
        *,
        scale: float = 1.0,
        epsilon: float = 1e-5,
        weights: str | None = None,
    ) -> str:
        """Add batch normalisation in its inference form, with statistics that fit its input.

        Args:
            x: Input, (N, C, ...).
            scale: Factor on the learned scale; below one on a residual branch keeps the sum tame.
            epsilon: Added to the variance.
            weights: What its weights are called, by which layers share them; ``name`` unless given.
        """
        channels = self.shapes[x][1]
        own = weights or name
        spread = self._weights.uniform(f"{own}.weight", channels, 0.8, 1.2)
        variance = self._weights.uniform(f"{own}.running_var", channels, 0.8, 1.25)
        values = {
            "weight": spread * np.float32(scale),
            "bias": self._weights.small(f"{own}.bias", channels),
            "running_mean": self._weights.small(f"{own}.running_mean", channels),
            "running_var": variance * np.float32(self._moments[x]),
        }
        inputs = [x, *(self._add_weight(f"{own}.{key}", value) for key, value in values.items())]
        self._add_node("BatchNormalization", inputs, name, epsilon=epsilon)
        return self._remember(name, self.shapes[x], scale**2)

    def relu(self, x: str, name: str) -> str:
        """Add max(0, x)."""
        self._add_node("Relu", [x], name)
        kept = x in self._sums  # a sum with a rectified shortcut is mostly positive already
        self._rectified.add(name)
        return self._remember(name, self.shapes[x], self._moments[x] * (1.0 if kept else 0.5))

    def relu6(self, x: str, name: str) -> str:
        """Add min(max(0, x), 6)."""
        bounds = [
            self._add_weight(f"{name}.{key}", np.asarray(value, np.float32))
            for key, value in (("min", 0.0), ("max", 6.0))
        ]
        self._add_node("Clip", [x, *bounds], name)
        return self._follow(x, name, "Clip")

    def leaky_relu(self, x: str, name: str, *, slope: float) -> str:
        """Add x where it is positive, ``slope`` times x elsewhere."""
        self._add_node("LeakyRelu", [x], name, alpha=slope)
        self._means[name] = (1 - slope) * math.sqrt(self._moments[x] / math.tau)
        return self._remember(name, self.shapes[x], self._moments[x] * (1 + slope**2) / 2)

    def prelu(self, x: str, name: str) -> str:
        """Add x where it is positive, elsewhere x times its channel's learned slope."""
        _, channels, *size = self.shapes[x]
        slope = self._weights.uniform(f"{name}.slope", channels, 0.15, 0.35)
        slope = slope.reshape(channels, *(1 for _ in size))
        self._add_node("PRelu", [x, self._add_weight(f"{name}.slope", slope)], name)
        return self._remember(name, self.shapes[x], self._moments[x] * (1 + 0.25**2) / 2)

    def swish(self, x: str, name: str) -> str:
        """Add x * sigmoid(x)."""
        self._add_node("Sigmoid", [x], f"{name}.sigmoid")
        self._add_node("Mul", [x, f"{name}.sigmoid"], name)
        return self._follow(x, name, "Swish")

    def gate(self, x: str, logits: str, name: str) -> str:
        """Add x * sigmoid(logits), where ``logits`` is (N, C, 1, 1)."""
        self._add_node("Sigmoid", [logits], f"{name}.sigmoid")
        self._add_node("Mul", [x, f"{name}.sigmoid"], name)
        return self._follow(x, name, "Gate")

    def add(self, x: str, y: str, name: str) -> str:
        """Add the sum of two tensors of one shape."""
        self._add_node("Add", [x, y], name)
        if x in self._rectified or y in self._rectified:
            self._sums.add(name)
        one, other = (self._means.get(part, 0.0) for part in (x, y))
        self._means[name] = one + other
        moment = self._moments[x] + self._moments[y] + 2 * one * other
        return self._remember(name, self.shapes[x], moment)

    def concat(self, parts: Sequence[str], name: str) -> str:
        """Add the tensors one after the other along the channels."""
        batch, _, *size = self.shapes[parts[0]]
        counts = [self.shapes[part][1] for part in parts]
        self._add_node("Concat", list(parts), name, axis=1)
        total = sum(counts)
        shares = zip(parts, counts, strict=True)
        moment = sum(self._moments[part] * count / total for part, count in shares)
        return self._remember(name, (batch, total, *size), moment)

    def narrow(self, x: str, name: str, channels: int) -> str:
        """Add the first channels of a tensor."""
        batch, _, *size = self.shapes[x]
        bounds = [
            self._add_shape(f"{name}.{key}", (value,))
            for key, value in (("starts", 0), ("ends", channels), ("axes", 1))
        ]
        self._add_node("Slice", [x, *bounds], name)
        return self._remember(name, (batch, channels, *size), self._moments[x])

    def widen(self, x: str, name: str, channels: int) -> str:
        """Add zeros behind a tensor's channels, up to so many."""
        batch, given, *size = self.shapes[x]
        rank = len(self.shapes[x])
        pads = [0] * (2 * rank)
        pads[rank + 1] = channels - given
        self._add_node("Pad", [x, self._add_shape(f"{name}.pads", tuple(pads))], name)
        return self._remember(name, (batch, channels, *size), self._moments[x] * given / channels)

    def cast(self, x: str, name: str, kind: npt.DTypeLike) -> str:
        """Add the same numbers in another type of float."""
        self._add_node("Cast", [x], name, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
        return self._remember(name, self.shapes[x], self._moments[x])

    def standardise(self, x: str, name: str, *, weights: str) -> str:
        """Add (x - mean) / deviation of each channel of an image, by weights of these names."""
        shape = (self.shapes[x][1], 1, 1)
        for kind, leaf, value in (("Sub", "mean", 0.5), ("Div", "deviation", 0.25)):
            constant = self._add_weight(f"{weights}.{leaf}", np.full(shape, value, np.float32))
            self._add_node(kind, [x, constant], f"{name}.{leaf}")
            x = self._remember(f"{name}.{leaf}", self.shapes[x], 1.0)
        return x

    def normalize(self, x: str, name: str, *, scale: float) -> str:
        """Add each position's channels divided by their length, times a learned scale each."""
        channels = self.shapes[x][1]
        weight = self._weights.uniform(f"{name}.weight", channels, 0.8 * scale, 1.2 * scale)
        weight = weight.reshape(channels, 1, 1)
        self._add_node("LpNormalization", [x], f"{name}.unit", axis=1, p=2)
        inputs = [f"{name}.unit", self._add_weight(f"{name}.weight", weight)]
        self._add_node("Mul", inputs, name)
        return self._remember(name, self.shapes[x], scale**2 / channels)

    def normalize_responses(self, x: str, name: str) -> str:
        """Add local response normalisation over five channels (Krizhevsky et al. 2012, 3.3)."""
        self._add_node("LRN", [x], name, size=5, alpha=5e-4, beta=_LRN_BETA, bias=_LRN_BIAS)
        moment = self._moments[x] * _LRN_BIAS ** (-2 * _LRN_BETA)
        return self._remember(name, self.shapes[x], moment)

    def max_pool(
        self,
        x: str,
        name: str,
        *,
        kernel: Extents,
        stride: Extents,
        pad: Extents = 0,
        pad_end: Extents | None = None,
        ceil: bool = False,
    ) -> str:
        """Add max pooling; the extent is rounded down, or up with ``ceil``.

        ``pad_end`` is padded behind, ``pad`` before; both are ``pad`` unless given.
        """
        more = {"ceil_mode": 1} if ceil else {}
        ends = pad if pad_end is None else pad_end
        return self._pool("MaxPool", x, name, (kernel, stride, pad, ends), **more)

    def average_pool(
        self, x: str, name: str, *, kernel: Extents, stride: Extents, pad: Extents = 0
    ) -> str:
        """Add average pooling, rounding the extent down; padding does not count."""
        return self._pool("AveragePool", x, name, (kernel, stride, pad, pad))

    def space_to_depth(self, x: str, name: str, *, block: int) -> str:
        """Add the regrouping of square blocks of positions into channels."""
        batch, channels, height, width = self.shapes[x]
        self._add_node("SpaceToDepth", [x], name, blocksize=block)
        shape = (batch, channels * block**2, height // block, width // block)
        return self._remember(name, shape, self._moments[x])

    def depth_to_space(self, x: str, name: str, *, block: int) -> str:
        """Add the regrouping of channels into square blocks of positions."""
        batch, channels, height, width = self.shapes[x]
        self._add_node("DepthToSpace", [x], name, blocksize=block)
        shape = (batch, channels // block**2, height * block, width * block)
        return self._remember(name, shape, self._moments[x])

    def upsample(self, x: str, name: str, *, factor: int = 2) -> str:
        """Add each position ``factor`` times along height and width."""
        batch, channels, height, width = self.shapes[x]
        shape = (batch, channels, height * factor, width * factor)
        sizes = self._add_shape(f"{name}.sizes", shape)
        rule = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self._add_node("Resize", [x, "", "", sizes], name, mode="nearest", **rule)
        return self._remember(name, shape, self._moments[x])

    def reshape(self, x: str, name: str, shape: tuple[int, ...]) -> str:
        """Add the same numbers in another shape, in row-major order."""
        self._add_node("Reshape", [x, self._add_shape(f"{name}.shape", shape)], name)
        return self._remember(name, shape, self._moments[x])

    def mean(self, x: str, name: str) -> str:
        """Add the mean over height and width; return its output (N, C, 1, 1)."""
        self._add_node("GlobalAveragePool", [x], name)
        moment = self._moments[x] * _MOMENT["Mean"]
        return self._remember(name, (*self.shapes[x][:2], 1, 1), moment)

    def flatten(self, x: str, name: str) -> str:
        """Add a reshape to (N, everything else)."""
        batch, *rest = self.shapes[x]
        self._add_node("Flatten", [x], name, axis=1)
        return self._remember(name, (batch, math.prod(rest)), self._moments[x])

    def dense(self, x: str, name: str, features: int, *, bias: bool = True) -> str:
        """Add a matrix product; return its output (N, features)."""
        batch, features_in = self.shapes[x]
        deviation = 1 / math.sqrt(features_in * self._moments[x])
        weight = self._weights.spread(f"{name}.weight", (features, features_in), deviation)
        inputs = [x, self._add_weight(f"{name}.weight", weight)]
        if bias:
            inputs.append(
                self._add_weight(f"{name}.bias", self._weights.small(f"{name}.bias", features))
            )
        self._add_node("Gemm", inputs, name, transB=1)
        return self._remember(name, (batch, features), 1.0)

    def finish(self, *outputs: str) -> onnx.ModelProto:
        """The model with these outputs."""
        for output in outputs:
            value = helper.make_tensor_value_info(output, TensorProto.FLOAT, self.shapes[output])
            self._graph.output.append(value)
        return self._model

    def _pool(
        self, kind: str, x: str, name: str, window: tuple[Extents, ...], **attributes: Any
    ) -> str:
        batch, channels, *size = self.shapes[x]
        kernel, stride, begins, ends = (spread_over(value, len(size)) for value in window)
        self._add_node(
            kind,
            [x],
            name,
            kernel_shape=kernel,
            strides=stride,
            pads=[*begins, *ends],
            **attributes,
        )
        extents = slide(size, kernel, stride, (begins, ends), is_up="ceil_mode" in attributes)
        moment = self._moments[x] * _MOMENT.get(kind, 1.0)
        return self._remember(name, (batch, channels, *extents), moment)

    def _add_node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> None:
        self._graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))

    def _remember(self, name: str, shape: tuple[int, ...], moment: float) -> str:
        self.shapes[name] = shape
        self._moments[name] = moment
        return name

    def _follow(self, x: str, name: str, kind: str) -> str:
        return self._remember(name, self.shapes[x], self._moments[x] * _MOMENT[kind])

    def _add_shape(self, name: str, shape: tuple[int, ...]) -> str:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(shape, np.int64), name))
        return name

    def _add_weight(self, name: str, value: Array) -> str:
        if name in self._added:
            return name
        self._added.add(name)
        written = self._weights.written(name, value)
        # In place: large weights would be copied twice more on their way through make_graph.
        weight = self._graph.initializer.add()
        weight.name = name
        weight.data_type = TensorProto.FLOAT
        weight.dims.extend(value.shape)
        if written is not None:
            weight.raw_data = written.astype("<f4", copy=False).tobytes()
        return name
