"""A state of training or search on disk: tensors as safetensors, with what they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from partita.errors import InputError
from partita.files import write_whole
from partita.separable.architecture import Architecture

_FORMAT = "partita separable 1"


def save(path: Path, architecture: Architecture, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write a state; the file appears whole or not at all.

    Args:
        facts: What else belongs to it, for JSON.
    """
    about = {
        "format": _FORMAT,
        "architecture": json.dumps(asdict(architecture)),
        "facts": json.dumps(facts),
    }
    held = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(held, about))


def load(
    path: Path, architecture: Architecture | None = None
) -> tuple[Architecture, Any, dict[str, Tensor]]:
    """Read a state; return the architecture, what else belongs to it, and the tensors.

    Args:
        architecture: The one that is expected; any unless given.

    Raises:
        InputError: The file cannot be read, is no such state, or is of another architecture.
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"Checkpoint '{path}': {error}.", subject=str(path)) from error
    if about.get("format") != _FORMAT:
        raise InputError(f"'{path}' is no checkpoint of a separable network.", subject=str(path))
    fields = json.loads(about["architecture"])
    found = Architecture(**{**fields, "image": tuple(fields["image"])})
    if architecture is not None and found != architecture:
        raise InputError(
            f"Checkpoint '{path}' is of {found} with {found.classes} classes, not of {architecture}"
            f" with {architecture.classes}.",
            subject=str(path),
        )
    return found, json.loads(about["facts"]), tensors
