"""How tensors of a quantised graph are codes, and what was asked of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[Any]

#: How the range is found that codes cover; see ``partita.quantisation.clipping``.
Clipping = Literal["max", "mse", "aciq"]
#: Bits of the sums that an integer kernel makes, and of what is added to them.
SUM_BITS = 32


class LayerBits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """With how many bits one layer computes; for an input of the network how many it has.

    Attributes:
        weight: Bits of the core's weights; None leaves them as they are.
        activation: Bits of what the layer makes; None leaves it as it is.
        low: Smallest activation that has a code of its own; smaller ones get its code.
        high: The largest.
        per_channel: Whether each output channel's weights have a scale of their own.
        affine: Whether codes of weights cover a range from low to high, not one around 0.
        clipping: How the range of weights is found. The range of activations stands here.
        norm: Exponent of the error that clipping ``mse`` makes small: 2 for squares.
        stretch: What the range found for weights is multiplied by.
        means: Of each channel that the core reads, on samples: the bias makes up for what rounded
            weights shift there. Empty where the bias stays as it is.
        exact_sums: Whether scales have so few digits that floats add up products of codes without
            rounding, so that kernels of all kinds make the same of them.
    """

    weight: int | None = None
    activation: int | None = None
    low: float = 0.0
    high: float = 0.0
    per_channel: bool = True
    affine: bool = False
    clipping: Clipping = "max"
    norm: float = 2.0
    stretch: float = 1.0
    means: tuple[float, ...] = ()
    exact_sums: bool = False


@dataclass(frozen=True, eq=False)
class Packing:
    """Whole numbers that stand for a tensor's values: value = (code - zero) * scale, exactly.

    Attributes:
        bits: Of one code: 2, 3, 4, 6 or 8; ``SUM_BITS`` for a bias.
        axis: Along which ``scale`` and ``zero`` change; None where they are single numbers.
        scale: Float32, of shape () or (extent of the axis,).
        zero: The code of 0; int32, of the shape of ``scale``.
        signed: Whether codes lie around 0, else they begin at 0.
    """

    bits: int
    axis: int | None
    scale: Floats
    zero: npt.NDArray[np.int32]
    signed: bool

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest code.

        Signed codes are as many below 0 as above, so that a scale is the same on both sides.
        """
        most = 2 ** (self.bits - self.signed) - 1
        return (-most if self.signed else 0), most

    @property
    def dtype(self) -> str:
        """The least type of NumPy that holds a code."""
        sign = "" if self.signed else "u"
        return f"{sign}int{8 if self.bits <= 8 else self.bits}"

    def codes(self, values: Floats) -> Codes:
        """The nearest codes, half to even; of a quantised tensor's values its own."""
        scale, zero = self._spread(values.ndim)
        if self.bits > 8:  # more digits than single precision has
            scaled = np.rint(values.astype(np.float64) / scale)
        else:
            scaled = np.rint(values / scale)
        scaled += zero
        return np.clip(scaled, *self.limits, out=scaled).astype(self.dtype)

    def values(self, codes: Codes) -> Floats:
        """What codes stand for."""
        scale, zero = self._spread(codes.ndim)
        values: Floats = np.multiply(codes.astype(np.int32) - zero, scale, dtype=np.float32)
        return values

    def round(self, values: Floats) -> Floats:
        """The values that the nearest codes stand for."""
        return self.values(self.codes(values))

    def cut(self, start: int, stop: int) -> Packing:
        """That of a part of the tensor along ``axis``."""
        if self.axis is None:
            return self
        part = slice(start, stop)
        return Packing(self.bits, self.axis, self.scale[part], self.zero[part], self.signed)

    def _spread(self, rank: int) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Scale and zero in a shape that broadcasts against a tensor of ``rank`` axes."""
        if self.axis is None:
            return self.scale, self.zero
        shape = [1] * rank
        shape[self.axis] = -1
        return self.scale.reshape(shape), self.zero.reshape(shape)
