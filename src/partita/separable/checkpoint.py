"""A state of training or search on disk: tensors as safetensors, with what they are of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from partita.errors import InputError
from partita.files import write_whole
from partita.separable.architecture import Architecture
from partita.separable.converted import Converted
from partita.separable.residual import ResidualNetwork

_FORMAT = "partita separable 2"
#: One entry of the file's metadata, which has no order: equal states are then equal files.
_KEY = "partita"
#: What a state may be of, by its kind.
_KINDS: dict[str, type[ResidualNetwork]] = {"architecture": Architecture, "converted": Converted}


def save(path: Path, network: ResidualNetwork, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write a state; the file appears whole or not at all.

    Args:
        facts: What else belongs to it, for JSON.
    """
    kind = next(name for name, one in _KINDS.items() if isinstance(network, one))
    about = {"format": _FORMAT, kind: msgspec.to_builtins(network), "facts": facts}
    held = {name: tensor.contiguous() for name, tensor in tensors.items()}
    about["sha256"] = _digest(held)
    write_whole(path, safetensors.torch.save(held, {_KEY: json.dumps(about)}))


def load(
    path: Path, network: ResidualNetwork | None = None
) -> tuple[ResidualNetwork, Any, dict[str, Tensor]]:
    """Read a state; return the network, what else belongs to it, and the tensors.

    Args:
        network: The one that is expected; any unless given.

    Raises:
        InputError: The file cannot be read, is no such state, or is of another network.
    """
    if path.is_dir():
        raise InputError(
            f"Checkpoint '{path}' is a folder: name a file network….safetensors of it.",
            subject=str(path),
        )
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(_KEY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InputError(f"Checkpoint '{path}': {error}.", subject=str(path)) from error
    if about.get("format") != _FORMAT:
        raise InputError(f"'{path}' is no checkpoint of a separable network.", subject=str(path))
    if about.get("sha256") != _digest(tensors):
        raise InputError(
            f"Checkpoint '{path}' is damaged: its tensors are not those that were written.",
            subject=str(path),
        )
    found = _read_network(path, about)
    if network is not None and found != network:
        raise InputError(
            f"Checkpoint '{path}' is of {found} with {found.classes} classes, not of {network}"
            f" with {network.classes}.",
            subject=str(path),
        )
    return found, about["facts"], tensors


def load_run(
    path: Path, network: ResidualNetwork, run: Mapping[str, Any]
) -> tuple[Any, dict[str, Tensor]]:
    """Read a state to go on from; return what belongs to it, and the tensors.

    Args:
        run: What makes the run this one: the file's facts must have the same under ``run``.

    Raises:
        InputError: As :func:`load`; or it is of another run, or none that can go on.
    """
    _, facts, tensors = load(path, network)
    if "run" not in facts:
        raise InputError(f"Checkpoint '{path}' is of a run that is done.", subject=str(path))
    differs = _first_difference(facts["run"], json.loads(json.dumps(run)))
    if differs:
        raise InputError(f"Checkpoint '{path}' is of another run: {differs}.", subject=str(path))
    return facts, tensors


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _first_difference(found: Any, own: Any, name: str = "") -> str:
    """What is not the same in two values for JSON, in words; empty where nothing is."""
    if isinstance(found, dict) and isinstance(own, dict):
        keys = {**found, **own}
        parts = (
            _first_difference(found.get(key), own.get(key), f"{name}.{key}".lstrip("."))
            for key in keys
        )
        return next(filter(None, parts), "")
    return "" if found == own else f"its {name} is {found}, not {own}"


def _read_network(path: Path, about: Mapping[str, Any]) -> ResidualNetwork:
    try:
        for kind, one in _KINDS.items():
            if kind in about:
                return msgspec.convert(about[kind], one)
    except msgspec.ValidationError as error:
        raise InputError(f"Checkpoint '{path}': {error}.", subject=str(path)) from error
    raise InputError(f"Checkpoint '{path}' does not say what it is of.", subject=str(path))
