"""What was found of a model's bits, as a file: JSON out, checked JSON in."""

from __future__ import annotations

from pathlib import Path

import msgspec

from partita.errors import InputError
from partita.files import read_regular
from partita.quantisation.errors import ErrorTable
from partita.quantisation.ranges import Limits, Means
from partita.quantisation.weights import WeightEnds
from partita.regions import LayerBits


class Findings(msgspec.Struct, frozen=True):
    """Error tables of a model, and a table of bits chosen for it.

    Attributes:
        bits: By the names of layers, and of inputs of the network.
        errors: Of its layers by width, where they are known.
        limits: Ends of the ranges of activations by width, where they are known.
        samples: How many samples ranges are from; 0 where that is not known.
        pixels: Inputs that are pictures of bytes, as of :class:`Ranges`.
        means: Of what layers read, as there.
        ends: Of the ranges of weights, where they are known.
    """

    bits: dict[str, LayerBits]
    errors: ErrorTable | None = None
    limits: Limits = {}
    samples: int = 0
    pixels: dict[str, float] = {}
    means: Means = {}
    ends: WeightEnds = {}


def dump_findings(findings: Findings) -> bytes:
    """The findings as indented JSON; ``load_findings`` gives back equal ones."""
    return msgspec.json.format(msgspec.json.encode(findings), indent=1) + b"\n"


def load_findings(path: Path) -> Findings:
    """The findings in a file.

    Raises:
        InputError: It is missing or no such file; the message names file and key.
    """
    try:
        return msgspec.json.decode(read_regular(path), type=Findings)
    except OSError as error:
        raise InputError(
            f"File of bits '{path}' cannot be read: {error.strerror}.", subject=str(path)
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"File '{path}' holds no bits: {error}. 'partita quantize --errors FILE' writes one.",
            subject=str(path),
        ) from None
