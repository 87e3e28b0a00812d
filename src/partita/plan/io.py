"""Plan files: JSON out, checked JSON in."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from partita.errors import PlanError
from partita.plan.model import SCHEMA_VERSION, Plan


def dump_plan(plan: Plan) -> bytes:
    """Return the plan as indented JSON; ``load_plan`` gives back an equal plan."""
    return msgspec.json.format(msgspec.json.encode(plan, order="deterministic"), indent=1) + b"\n"


def hash_plan(plan: Plan) -> str:
    """Return the SHA-256 of the plan's canonical form, in hex."""
    return hashlib.sha256(msgspec.json.encode(plan, order="deterministic")).hexdigest()


def load_plan(source: str | Path | bytes) -> Plan:
    """Return the plan in a file, or in bytes.

    Raises:
        PlanError: The file is missing, is no JSON, has an unknown schema version, or a key of the
            wrong type; the message names file and key.
    """
    if isinstance(source, bytes):
        name, data = "plan", source
    else:
        name = str(source)
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise PlanError(
                f"Plan file '{name}' cannot be read: {error.strerror}.", subject=name
            ) from error
    try:
        version = msgspec.json.decode(data, type=dict).get("schema", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise PlanError(
                f"Plan file '{name}', key 'schema': got {version}, this version of Partita reads"
                f" {SCHEMA_VERSION}. Plan again with 'partita plan'.",
                subject=name,
            )
        return msgspec.json.decode(data, type=Plan)
    except msgspec.MsgspecError as error:
        raise PlanError(f"Plan file '{name}' is not a plan: {error}.", subject=name) from error
