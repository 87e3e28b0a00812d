"""What Partita shows to the outside, collected from the code: names, commands, flags, errors."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

import partita
from partita.errors import PartitaError
from partita.plan import Plan


def list_names() -> list[str]:
    """Return the names that ``partita`` exports."""
    return sorted(getattr(partita, "__all__", ()))


def list_commands() -> dict[str, dict[str, list[str]]]:
    """Return arguments and flags of every command, by verb (``keys make`` for a nested one)."""
    from partita.cli import app as cli  # its modules change while other parts still serve

    found: dict[str, dict[str, list[str]]] = {}
    root = typer.main.get_command(getattr(cli, "app"))  # noqa: B009
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        name, command = todo.pop()
        if hasattr(command, "list_commands"):
            context = typer.Context(command)
            verbs = command.list_commands(context)
            todo += [(f"{name} {v}".strip(), command.get_command(context, v)) for v in verbs]
        if name:
            found[name] = {
                "arguments": [p.name for p in command.params if _is_argument(p)],
                "flags": sorted(flag for p in command.params for flag in _flags(p)),
            }
    return dict(sorted(found.items()))


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _flags(parameter: Any) -> list[str]:
    if _is_argument(parameter) or getattr(parameter, "hidden", False):
        return []
    return [flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag != "--help"]


def list_errors() -> dict[str, dict[str, object]]:
    """Return the error tree: parent, kind and exit code of every class, by name."""
    found: dict[str, dict[str, object]] = {}
    todo: list[type[PartitaError]] = [PartitaError]
    while todo:
        error = todo.pop()
        parent = error.__mro__[1].__name__
        found[error.__name__] = {
            "parent": parent,
            "kind": error.kind,
            "exit_code": error.exit_code,
        }
        todo += [child for child in error.__subclasses__() if child.__module__ == "partita.errors"]
    return dict(sorted(found.items()))


def describe_plan() -> dict[str, Any]:
    """Return the JSON schema of the plan file, without its prose."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in ("description", "title")}
        return [strip(item) for item in value] if isinstance(value, list) else value

    schema: dict[str, Any] = strip(msgspec.json.schema(Plan))
    return schema
