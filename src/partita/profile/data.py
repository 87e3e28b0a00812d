"""A profile as plain data, and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from partita.errors import ClusterError
from partita.files import read_regular, write_whole

SCHEMA_VERSION = 1


#: Seconds, or seconds per byte or layer: what a machine can take.
Cost = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Factor = Annotated[float, msgspec.Meta(ge=1e-3, le=1e3)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What one layer took for one number of output rows.

    Attributes:
        rows: Extent of the layer's first output along its row axis; 1 where it has none.
        seconds: The least of all runs: nodes are short, so that some run finds the machine quiet.
        spread_s: Distance between the quartiles of all runs.
    """

    rows: Count
    seconds: Cost
    count: Count
    spread_s: Cost


class LayerProfile(msgspec.Struct, frozen=True):
    """One layer on one device.

    Attributes:
        rows: Rows of the whole first output; 1 where it has no row axis.
        blocked: Whether the engine keeps the layer's tensors in a layout of its own, so that a
            fragment that begins or ends here must convert.
        samples: In increasing order of rows, each extent once.
    """

    kind: str
    rows: Count
    blocked: bool
    samples: tuple[Sample, ...]


class RunCost(msgspec.Struct, frozen=True):
    """What a fragment costs beyond its layers.

    Attributes:
        overhead_s: Each run.
        layer_s: Each layer of a run.
        enter_s_per_byte: Converting inputs that blocked layers read.
        leave_s_per_byte: Converting outputs that blocked layers make.
        factor: Measured fragments over the sum of all the above.
        read_s_per_byte: What a fragment reads, as it comes from memory.
        write_s_per_byte: What it makes.
        copy_s_per_byte: Reading and writing memory, such as adding partial results.
        load_s: Making one fragment ready.
        load_s_per_byte: The same, per byte of weights.
    """

    overhead_s: Cost = 0.0
    layer_s: Cost = 0.0
    enter_s_per_byte: Cost = 0.0
    leave_s_per_byte: Cost = 0.0
    factor: Factor = 1.0
    copy_s_per_byte: Cost = 0.0
    load_s: Cost = 0.0
    load_s_per_byte: Cost = 0.0
    read_s_per_byte: Cost = 0.0
    write_s_per_byte: Cost = 0.0


class WireCost(msgspec.Struct, frozen=True):
    """Encoding and decoding one piece: a fixed part and one per byte of the tensor in memory."""

    encode_s: Cost
    encode_s_per_byte: Cost
    decode_s: Cost
    decode_s_per_byte: Cost


class Profile(msgspec.Struct, frozen=True):
    """Everything measured of one model on one device.

    Attributes:
        device: Name for people.
        machine: Processor and system, as the system names them.
        engine: Name and version.
        precision: Number format of the measured model.
        integer: Layers of 8 bits on the engine's integer kernels, where they were measured; like
            ``layers``, they count with the factor of ``runs``.
        wires: Per wire format.
        message_s: What one message costs on the device's fabric beyond the link, where measured.
        reference_s: What the engine's reference took at the pace that all times are given in.
    """

    device: str
    machine: str
    threads: int
    engine: str
    provider: str
    precision: str
    model: str
    model_hash: str
    layers: dict[str, LayerProfile]
    runs: RunCost = RunCost()
    integer: dict[str, LayerProfile] = {}
    wires: dict[str, WireCost] = {}
    message_s: Cost = 0.0
    reference_s: Cost = 0.0
    schema: int = SCHEMA_VERSION

    @property
    def sum_of_layers_s(self) -> float:
        """The seconds of all layers, each as a whole."""
        return _sum_whole(self.layers)

    @property
    def sum_of_integer_layers_s(self) -> float | None:
        """The same with 8 bits on integer kernels; None where that was not measured."""
        return _sum_whole(self.integer) if self.integer else None


def _sum_whole(layers: dict[str, LayerProfile]) -> float:
    return sum(
        max((sample.seconds for sample in layer.samples), default=0.0) for layer in layers.values()
    )


def dump_profile(profile: Profile) -> bytes:
    """The profile as indented JSON; :func:`load_profile` gives back an equal one."""
    return msgspec.json.format(msgspec.json.encode(profile, order="sorted"), indent=1) + b"\n"


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write the profile to ``path``, whole or not at all.

    Raises:
        ClusterError: The file cannot be written.
    """
    write_atomically(Path(path), dump_profile(profile))


def load_profile(source: str | Path | bytes) -> Profile:
    """The profile in a file, or in bytes.

    Raises:
        ClusterError: The file is missing, no profile, or of another schema version.
    """
    name = "Profile" if isinstance(source, bytes) else f"Profile {str(source)!r}"
    try:
        data = source if isinstance(source, bytes) else read_regular(Path(source))
        version = msgspec.json.decode(data, type=dict).get("schema")
        if version is None:
            raise ClusterError(
                f"{name} is not a profile: it has no key 'schema'. Measure one with 'partita"
                " profile'.",
                subject=name,
            )
        if version != SCHEMA_VERSION:
            raise ClusterError(
                f"{name}, key 'schema': got {version}, this version of Partita reads"
                f" {SCHEMA_VERSION}. Measure again with 'partita profile'.",
                subject=name,
            )
        return msgspec.json.decode(data, type=Profile)
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}. Measure one with 'partita profile'."
        raise ClusterError(message, subject=name) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"{name} is not a profile: {error}.", subject=name) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` by a temporary file beside it.

    Raises:
        ClusterError: The folder is missing or not writable.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        message = f"Profile {str(path)!r} cannot be written: {error.strerror}."
        raise ClusterError(message, subject=str(path)) from error
