"""Plan files: JSON out, checked JSON in."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, get_args

import msgspec

from partita.errors import PlanError
from partita.files import read_regular
from partita.plan.model import SCHEMA_VERSION, Asked, Identity, Plan, Shard, SplitAxis, Stage
from partita.regions import Clipping, LayerBits

#: A guard against slips in a file, far beyond what keeps devices busy. Not tuned.
MAX_IN_FLIGHT = 1000
#: The most characters of a path on Linux.
_MAX_PATH = 4096

#: Versions of plan files that are read.
_READ = (1, SCHEMA_VERSION)

#: What stands at each key of a plan file, for messages; the empty key is the file itself.
_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Plan,
    "model": Identity,
    "cluster": Identity,
    "options": Asked,
    "stages": Stage,
    "shards": Shard,
    "merge": Shard,
    "fallback": Plan,
    "bits": LayerBits,
}

#: What keys with few values may be.
_CHOICES: dict[str, Any] = {"axis": SplitAxis, "clipping": Clipping}


def dump_plan(plan: Plan) -> bytes:
    """The plan as indented JSON; ``load_plan`` gives back an equal plan."""
    return msgspec.json.format(msgspec.json.encode(plan, order="deterministic"), indent=1) + b"\n"


def hash_plan(plan: Plan) -> str:
    """The SHA-256 of the plan's canonical form, in hex."""
    return hashlib.sha256(msgspec.json.encode(plan, order="deterministic")).hexdigest()


def load_plan(source: str | Path | bytes) -> Plan:
    """The plan in a file, or in bytes.

    Raises:
        PlanError: The file is missing, is no JSON, has an unknown schema version, or a key of the
            wrong type; the message names file and key.
    """
    if isinstance(source, bytes):
        name, data = "plan", source
    else:
        name = str(source)
        try:
            data = read_regular(Path(source))
        except OSError as error:
            raise PlanError(
                f"Plan file '{name}' cannot be read: {error.strerror}.", subject=name
            ) from error
    try:
        version = msgspec.json.decode(data, type=dict).get("schema", SCHEMA_VERSION)
        if version not in _READ:
            raise PlanError(
                f"Plan file '{name}', key 'schema': got {version}, this version of Partita reads"
                f" {' and '.join(map(str, _READ))}. Plan again with 'partita plan'.",
                subject=name,
            )
        plan = msgspec.json.decode(data, type=Plan)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"Plan file '{name}' is not a plan: {error}{_allowed(str(error))}."
        raise PlanError(message, subject=name) from error
    _check_values(name, plan)
    return msgspec.structs.replace(plan, schema=SCHEMA_VERSION)


def _allowed(message: str) -> str:
    """What is allowed where a key or an axis is wrong, to follow msgspec's message."""
    where = re.search(r"at `\$\.?(.*)`$", message)
    key = re.sub(r"\[.*?\]", "", where[1] if where else "").rpartition(".")[2]
    if message.startswith("Invalid enum value"):
        return f"; allowed for '{key}': {', '.join(get_args(_CHOICES[key]))}"
    if "field" in message and key in _TABLES:
        return f"; keys here are {', '.join(_TABLES[key].__struct_fields__)}"
    return ""


def _check_values(name: str, plan: Plan) -> None:
    faults = []
    if not 1 <= plan.in_flight <= MAX_IN_FLIGHT:
        faults.append(f"key 'in_flight': got {plan.in_flight}, allowed: 1 to {MAX_IN_FLIGHT}")
    if plan.seed < 0:
        faults.append(f"key 'seed': got {plan.seed}, allowed: 0 and above")
    for key, path in (("model.path", plan.model.path), ("cluster.path", plan.cluster.path)):
        if "\0" in path or len(path) > _MAX_PATH:
            faults.append(
                f"key '{key}': {path[:40]!r} cannot be a path, allowed: up to {_MAX_PATH} "
                "characters without NUL"
            )
    if faults:
        raise PlanError(f"Plan file '{name}', {'; '.join(faults)}.", subject=name)
