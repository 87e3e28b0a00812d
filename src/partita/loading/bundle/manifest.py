"""What a bundle says of itself: the variants it holds, and the child models of each.

A bundle is a folder: ``manifest.json``, and one folder per variant with ``child-0.onnx``,
``child-1.onnx`` and so on, and the weights of all of them in the order in which they are used,
``weights.bin``. The children are ordinary ONNX files with external data.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any

import msgspec
import onnxruntime as ort

from partita.errors import BundleError
from partita.files import read_regular, require_regular
from partita.program import DTYPE_BYTES, Compute, Load, Program, check_program

SCHEMA = 1
#: Threads, and children that load at the same time, at most: more than any machine at hand has.
MOST = 256
#: Read at a time while a file is hashed. Not tuned; who asks to stop waits for no more than this.
_CHUNK_BYTES = 2**20
MANIFEST, WEIGHTS = "manifest.json", "weights.bin"
#: Extensions of instruction sets that decide how an optimised graph lays out its weights.
_EXTENSIONS = (
    "asimd",
    "asimddp",
    "avx",
    "avx2",
    "avx512f",
    "avx512vl",
    "avx512_vnni",
    "fma",
    "sve",
)


Count = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


class TrainableSource(msgspec.Struct, frozen=True):
    """A trainable child before it was optimised, in the variant's folder.

    Attributes:
        file: Its graph; what may be trained has the model's names.
        hash: SHA-256 of the graph.
        weights: Its file of weights.
        weights_hash: SHA-256 of the weights.
    """

    file: str
    hash: str
    weights: str
    weights_hash: str


class PackedWeight(msgspec.Struct, frozen=True):
    """A weight of which the file of weights has packed codes, as workers' stores have.

    Attributes:
        location: How the child names it, with the type that it is unpacked to.
        start: Where it begins in the file.
        size_bytes: How long it is there.
    """

    location: str
    start: Bytes
    size_bytes: Bytes


class Child(msgspec.Struct, frozen=True, rename={"source": "plain"}):
    """One child model of a variant; in the manifest's file its source is called ``plain``.

    Attributes:
        file: Name in the variant's folder.
        hash: SHA-256 of the file.
        layers: Names of the model's layers that it computes, in order.
        start: Where its weights begin in the file of weights.
        size_bytes: How long they are.
        source: What it is trained from; None where it is not trainable.
        weights: Name of its own file of weights, as a trained child has; empty where they lie in
            the variant's.
        weights_hash: SHA-256 of that file.
        packed: Weights that are unpacked when it is loaded.
    """

    file: str
    hash: str
    layers: tuple[str, ...]
    start: Bytes
    size_bytes: Bytes
    trainable: bool = False
    source: TrainableSource | None = None
    weights: str = ""
    weights_hash: str = ""
    packed: tuple[PackedWeight, ...] = ()


class Variant(msgspec.Struct, frozen=True):
    """One division of the model in a bundle: its children, and how to execute them.

    Attributes:
        name: The folder in the bundle.
        device: Kind of device that it was measured on.
        processor: Signature of the processors that can run it; empty for all.
        program: One device's steps: a ``Load`` and a ``Compute`` per child.
        threads: Threads within one operator.
        loaders: Children that load at the same time.
        measured_on: Signature of the processor that it was chosen on; empty where nothing was
            measured.
    """

    name: str
    device: str
    processor: str
    program: Program
    children: tuple[Child, ...]
    weights_bytes: Bytes
    weights_hash: str
    threads: Count
    loaders: Count
    prepack: bool = False
    measured_on: str = ""


class Manifest(msgspec.Struct, frozen=True, rename={"variants": "schemes"}):
    """The whole bundle; in its file the variants are called ``schemes``.

    Attributes:
        engine: Name and version of the engine that the children were optimised by.
        variants: The preferred first.
        hash: SHA-256 of the manifest without it.
    """

    model: str
    model_hash: str
    engine: str
    variants: tuple[Variant, ...]
    schema: int = SCHEMA
    hash: str = ""


# Made once, with the module: making one takes longer than what it then does.
_DECODER = msgspec.json.Decoder(Manifest)
_ENCODER = msgspec.json.Encoder(order="sorted")


def check_count(what: str, number: int, most: int = MOST) -> None:
    """Raise unless a number of something is a whole one from 1 on.

    Raises:
        BundleError: It is not.
    """
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not (is_whole and 1 <= number <= most):
        raise BundleError(f"{what}: got {number!r}; allowed: 1 to {most}.")


def engine_name() -> str:
    """Name and version of the engine that runs here."""
    return f"onnxruntime {ort.__version__}"


def processor_signature() -> str:
    """What must be equal for a fully optimised graph to run: family and extensions."""
    flags: list[str] = []
    try:
        with open("/proc/cpuinfo") as lines:  # one processor is enough: reading of many takes long
            flags = next(
                (line for line in lines if line.startswith(("flags", "Features"))), ""
            ).split()
    except OSError:
        pass
    return "+".join(
        (platform.machine(), *(extension for extension in _EXTENSIONS if extension in flags))
    )


def dump_manifest(manifest: Manifest) -> bytes:
    """The manifest's file, with its hash."""
    content = msgspec.to_builtins(manifest)
    content["hash"] = _hash(content)
    return msgspec.json.format(_ENCODER.encode(content), indent=1) + b"\n"


def _hash(content: Mapping[str, Any]) -> str:
    """The hash of all that a file says but its hash; also of what is not known here."""
    bare = {key: value for key, value in content.items() if key != "hash"}
    return hashlib.sha256(_ENCODER.encode(bare)).hexdigest()


def read_manifest(folder: str | Path) -> Manifest:
    """A bundle's manifest.

    Raises:
        BundleError: It is missing, damaged, of another schema version or of another engine.
    """
    path = Path(folder) / MANIFEST
    try:
        data = read_regular(path)
    except OSError as error:
        raise BundleError(
            f"Bundle '{folder}' has no readable {MANIFEST}: {error.strerror}.", subject=str(folder)
        ) from None
    try:
        content = msgspec.json.decode(data)
        version = content.get("schema") if isinstance(content, dict) else None
        if version != SCHEMA:
            raise BundleError(
                f"{path}, key 'schema': got {version!r:.40}, this version of Partita"
                f" reads {SCHEMA}.",
                subject=str(path),
            )
        manifest = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(
            f"{path} is no manifest of a bundle: {error}.", subject=str(path)
        ) from None
    if manifest.engine != engine_name():
        raise BundleError(
            f"Bundle '{folder}' was made for {manifest.engine}, here is {engine_name()}."
            " Split the model again with 'partita load split'.",
            subject=str(folder),
        )
    _check_manifest(manifest, path, _hash(content))
    return manifest


def _check_manifest(manifest: Manifest, path: Path, digest: str) -> None:
    fault = next((f for variant in manifest.variants for f in _find_faults(variant)), None)
    if fault is None and not manifest.variants:
        fault = "key 'schemes': it is empty"
    names = [variant.name for variant in manifest.variants]
    if fault is None and len(set(names)) < len(names):
        fault = "key 'schemes': two have one name"
    if fault is None and manifest.hash != digest:
        fault = "it is not what its hash says"
    if fault is not None:
        raise BundleError(
            f"{path} was altered: {fault}. Split the model again with 'partita load split'.",
            subject=str(path),
        )


def _find_faults(variant: Variant) -> list[str]:
    """What is wrong with a variant; what its files hold is looked at when it is used."""
    where, program = f"variant '{variant.name}'", variant.program
    if not variant.children:
        return [f"{where}: it has no children"]
    for name in _names_of(variant):
        if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
            return [f"{where}: {name!r} is no name of a file in a folder of its own"]
    if len(program.devices) != 1:
        return [f"{where}: its program is for {len(program.devices)} devices, not for 1"]
    steps = program.devices[0].steps
    for kind in (Load, Compute):
        fragments = sorted(step.fragment for step in steps if isinstance(step, kind))
        if fragments != list(range(len(variant.children))):
            return [
                f"{where}: its {kind.__name__} steps are of children {fragments}, it has"
                f" {len(variant.children)}"
            ]
    for number, child in enumerate(variant.children):
        if not child.weights and child.start + child.size_bytes > variant.weights_bytes:
            return [
                f"{where}: child {number} has weights up to {child.start + child.size_bytes} of"
                f" {variant.weights_bytes} bytes"
            ]
        stop = child.start + child.size_bytes
        for weight in child.packed:
            if not child.start <= weight.start <= weight.start + weight.size_bytes <= stop:
                return [f"{where}: child {number} has a packed weight outside of its own"]
    for spec in (*program.inputs, *program.outputs):
        if spec.dtype not in DTYPE_BYTES or min(spec.shape, default=1) < 1:
            return [f"{where}: tensor '{spec.name}' is {spec.dtype} of shape {spec.shape}"]
    return [f"{where}: {fault}" for fault in check_program(program)]


def _names_of(variant: Variant) -> Iterator[str]:
    """Yield what lies in the bundle, in the variant's folder: nothing outside is read."""
    yield variant.name
    for child in variant.children:
        yield child.file
        if child.weights:
            yield child.weights
        if child.source is not None:
            yield from (child.source.file, child.source.weights)


def stamp_of(home: Path) -> tuple[int, ...]:
    """What another manifest in the same place does not have; nothing where there is none."""
    try:
        stat = os.stat(home / MANIFEST)
    except (OSError, ValueError):
        return ()
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns


def choose_variant(manifest: Manifest, folder: Path, name: str | None = None) -> Variant:
    """The variant to use here: the one named, or the best that this processor can run.

    Those made for this very processor come first, then those that were chosen on such a one, then
    all that run everywhere; of equal ones the first.

    Raises:
        BundleError: There is none of that name, or none for this processor.
    """
    here = processor_signature()
    usable = [variant for variant in manifest.variants if variant.processor in ("", here)]
    usable.sort(key=lambda variant: (variant.processor != here, variant.measured_on != here))
    if name is not None:
        named = [variant for variant in manifest.variants if variant.name == name]
        if not named:
            names = ", ".join(variant.name for variant in manifest.variants)
            raise BundleError(f"Bundle '{folder}' has no variant '{name}'; it has: {names}.")
        usable = [variant for variant in named if variant in usable]
    if not usable:
        needs = "; ".join(f"{variant.name}: {variant.processor}" for variant in manifest.variants)
        raise BundleError(
            f"Bundle '{folder}' has no variant for this processor ({here}); it has {needs}."
            " Split the model here, or with its portable variant.",
            subject=str(folder),
        )
    return usable[0]


def hash_file(path: Path, is_over: Callable[[], bool] = lambda: False) -> str:
    """The SHA-256 of a file, or of its beginning where ``is_over`` says so.

    Raises:
        OSError: It cannot be read.
    """
    require_regular(path)
    digest, buffer = hashlib.sha256(), bytearray(_CHUNK_BYTES)
    with path.open("rb", buffering=0) as file:
        while (count := file.readinto(buffer)) and not is_over():
            digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()
