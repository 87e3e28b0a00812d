"""Where the scenario of a name lies."""

from __future__ import annotations

from pathlib import Path

from partita.errors import ClusterError

#: What a cluster's path begins with when it names a scenario.
PREFIX = "scenario:"
_FOLDER = Path(__file__).parent


def is_scenario(source: str | Path) -> bool:
    """Whether a cluster's path names a scenario.

    >>> is_scenario("scenario:DB-50")
    True
    """
    return str(source).startswith(PREFIX)


def scenario_names() -> tuple[str, ...]:
    """The names of all scenarios, in alphabetical order.

    >>> "DB-50" in scenario_names()
    True
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def find_scenario(source: str | Path) -> Path:
    """The cluster file of a scenario.

    Args:
        source: ``scenario:NAME`` or ``NAME``; capitals do not matter.

    Raises:
        ClusterError: There is none of that name; the message lists those that exist.
    """
    name = str(source).removeprefix(PREFIX)
    for known in scenario_names():
        if known.lower() == name.lower():
            return _FOLDER / f"{known}.toml"
    names = ", ".join(scenario_names())
    raise ClusterError(f"Scenario '{name}' is unknown; there are: {names}.", subject=name)
