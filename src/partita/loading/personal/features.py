"""Features: what the children before the last make of samples, computed once and kept."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from partita.errors import BundleError, InputError
from partita.files import require_regular
from partita.loading.bundle.manifest import (
    Manifest,
    Variant,
    choose_variant,
    read_manifest,
    stamp_of,
)
from partita.loading.serve.session import BundleSession
from partita.program import Compute, Deliver, DeviceProgram, Load, Step, TensorSpec, buffers_read
from partita.regions import Array

#: One array where the model has one input, else an array per input; samples along the first axis.
Samples = Array | Mapping[str, Array]


def load_frozen(folder: str | Path, *, variant: str | None = None) -> BundleSession:
    """A session over the children before the last; the last one is not loaded.

    Its outputs are what the last child reads, in the order of that child's inputs. Where there is
    one child alone, they are the model's inputs.

    Raises:
        BundleError: As :func:`partita.loading.load_bundle`.
    """
    home = Path(folder)
    manifest = read_manifest(home)
    return open_frozen(home, manifest, choose_variant(manifest, home, variant))


def open_frozen(home: Path, manifest: Manifest, variant: Variant) -> BundleSession:
    """:func:`load_frozen`'s session for a variant that is chosen."""
    return BundleSession(
        home / variant.name,
        manifest,
        _without_last(variant),
        threads=variant.threads,
        loaders=variant.loaders,
        read_ahead=False,
        verify=True,
        stamp=stamp_of(home),
    )


def _without_last(variant: Variant) -> Variant:
    """The variant as one whose answer is what the last child reads."""
    program, last = variant.program, len(variant.children) - 1
    device = program.devices[0]
    ending = next(s for s in device.steps if isinstance(s, Compute) and s.fragment == last)
    kept: list[Step] = [
        Deliver(step.id, ending.reads) if isinstance(step, Deliver) else step
        for step in device.steps
        if not (isinstance(step, Load | Compute) and step.fragment == last)
    ]
    reads = [number for step in kept for number in buffers_read(step)]
    buffers = tuple(
        msgspec.structs.replace(buffer, readers=reads.count(buffer.id))
        for buffer in device.buffers
        if buffer.id not in ending.writes
    )
    dtypes = {buffer.id: buffer.dtype for buffer in buffers}
    outputs = tuple(
        TensorSpec(read.tensor, read.box.shape, dtypes[read.buffers[0]]) for read in ending.reads
    )
    bare = msgspec.structs.replace(
        program,
        outputs=outputs,
        fragments=program.fragments[:last],
        devices=(DeviceProgram(device.device, tuple(kept), buffers),),
    )
    return msgspec.structs.replace(variant, program=bare, children=variant.children[:last])


def compute_features(
    folder: str | Path,
    samples: Samples,
    *,
    variant: str | None = None,
    cache: str | Path | None = None,
) -> list[Array]:
    """What the last child reads of each sample: an array per input, samples first.

    Args:
        samples: (samples, ...) with the rest of each input's shape; a mapping by input name where
            the model has several.
        cache: A file (``.npz``) that is read where it holds the features of these samples by these
            children, and else written.

    Raises:
        BundleError: As :func:`partita.loading.load_bundle`; the weights were altered; the model
            takes more than one sample at a time; or the cache cannot be written.
        InputError: The samples do not fit the model.
        RunError: A child failed.
    """
    home = Path(folder)
    manifest = read_manifest(home)
    chosen = choose_variant(manifest, home, variant)
    arrays = check_samples(chosen, samples)
    if cache is None:
        return _run(home, manifest, chosen, arrays)
    key = _cache_key(chosen, arrays)
    features = _read_cache(Path(cache), key)
    if features is None:
        features = _run(home, manifest, chosen, arrays)
        _write_cache(Path(cache), key, features)
    return features


def check_samples(variant: Variant, samples: Samples) -> dict[str, Array]:
    """The samples by input name, in the types that the model takes.

    Raises:
        BundleError: The model takes more than one sample at a time.
        InputError: An input is missing or unknown, there are no samples or unequal numbers of
            them, or shape or type differ.
    """
    specs = variant.program.inputs
    if isinstance(samples, Mapping):
        given = {name: np.asarray(array) for name, array in samples.items()}
    else:
        given = {specs[0].name: np.asarray(samples)}
    names = [spec.name for spec in specs]
    if set(given) != set(names):
        raise InputError(
            f"Samples are for inputs {', '.join(map(repr, given)) or 'none'}, the model takes"
            f" {', '.join(map(repr, names))}."
        )
    return {spec.name: _check_input(spec, given[spec.name], given[names[0]]) for spec in specs}


def _check_input(spec: TensorSpec, array: Array, first: Array) -> Array:
    if not spec.shape or spec.shape[0] != 1:
        raise BundleError(
            f"Input '{spec.name}' is {list(spec.shape)}: personalisation needs a model of one"
            " sample at a time, whose inputs begin with extent 1. Fix the batch at 1, split anew.",
            subject=spec.name,
        )
    if array.ndim == 0 or len(array) == 0 or len(array) != len(first):
        raise InputError(
            f"Samples of input '{spec.name}' are {list(array.shape)}: every input needs the same"
            " number of samples, at least one.",
            subject=spec.name,
        )
    wanted = np.dtype(spec.dtype)
    if array.shape[1:] != spec.shape[1:] or not np.can_cast(array.dtype, wanted, "same_kind"):
        raise InputError(
            f"Samples of input '{spec.name}' are {array.dtype.name}{list(array.shape)}, the model"
            f" takes {wanted.name}{['N', *spec.shape[1:]]}.".replace("'N'", "N"),
            subject=spec.name,
        )
    if not fits(array, wanted):
        raise InputError(
            f"Samples of input '{spec.name}' hold NaN, infinite numbers or such that are too large"
            f" for {wanted.name}; allowed are finite.",
            subject=spec.name,
        )
    return array


def fits(array: Array, wanted: np.dtype[Any]) -> bool:
    """Whether all numbers are finite as this type."""
    if array.dtype.kind != "f" or wanted.kind != "f":
        return True
    most = float(np.abs(array).max(initial=0.0))  # NaN where one is
    return most <= float(np.finfo(wanted).max)


def _run(home: Path, manifest: Manifest, variant: Variant, arrays: dict[str, Array]) -> list[Array]:
    """The features, one sample after the other."""
    with open_frozen(home, manifest, variant) as session:
        specs, dtypes = session.get_outputs(), {s.name: s.dtype for s in session.get_inputs()}
        count = len(next(iter(arrays.values())))
        features = [np.empty((count, *spec.shape[1:]), spec.dtype) for spec in specs]
        for spec in specs:
            _check_output(spec)
        for number in range(count):
            feeds = {n: a[number : number + 1].astype(dtypes[n]) for n, a in arrays.items()}
            for into, array in zip(features, session.run(None, feeds), strict=True):
                into[number] = array[0]
        session.wait()
    return features


def _check_output(spec: TensorSpec) -> None:
    if not spec.shape or spec.shape[0] != 1:
        raise BundleError(
            f"Tensor '{spec.name}', which the last child reads, is {list(spec.shape)}: it must"
            " begin with extent 1, for one sample. Cut the model elsewhere.",
            subject=spec.name,
        )


def _cache_key(variant: Variant, arrays: Mapping[str, Array]) -> str:
    """A hash of all that the features depend on."""
    digest = hashlib.sha256(variant.weights_hash.encode())
    for child in variant.children[:-1]:
        digest.update(child.hash.encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read_cache(path: Path, key: str) -> list[Array] | None:
    """The features that a file holds under this key; None where it does not."""
    try:
        require_regular(path)
        with np.load(path, allow_pickle=False) as held:
            if str(held["key"]) != key:
                return None
            return [held[f"i{place}"] for place in range(len(held.files) - 1)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write_cache(path: Path, key: str, features: list[Array]) -> None:
    fresh = path.with_name(f".{path.name}.new")
    arrays = {f"i{place}": array for place, array in enumerate(features)}
    try:
        try:
            with fresh.open("wb") as file:
                np.savez(file, key=np.asarray(key), **arrays)  # type: ignore[arg-type]
            os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise BundleError(
            f"Features '{path}' cannot be written: {error.strerror}.", subject=str(path)
        ) from None
