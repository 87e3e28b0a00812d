"""The command line starts fast and is typed: late imports and untyped parameters are counted."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.surface import list_commands

import partita.cli

HOME = Path(partita.cli.__file__).parent
#: One late import per command, and so many of what takes longer to load than most of its calls.
LATE_CAP, ANY_CAP = len(list_commands()) + 21, 5
#: What the core installation does not have.
ABSENT = ("onnx", "scipy", "sklearn", "matplotlib", "networkx", "PIL", "torch")
WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: (
    None if name.partition(".")[0] in {} else find(name, *rest)
)
from partita.cli import main
sys.exit(main())
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_late_imports(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the imports inside functions, once each however deep."""
    inside = (ast.walk(node) for node in ast.walk(tree) if isinstance(node, Function))
    found = {n: None for some in inside for n in some if isinstance(n, ast.Import | ast.ImportFrom)}
    yield from found


def list_untyped(tree: ast.AST) -> Iterator[ast.arg]:
    """Yield the parameters whose type is ``Any``, alone or in a choice."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            parts = ast.unparse(node.annotation).split(" | ")
            if "Any" in parts:
                yield node


def read_trees(folder: Path) -> dict[str, ast.Module]:
    """Return the modules of a folder, by path."""
    return {
        str(path.relative_to(folder)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def test_imports_are_late_for_a_reason_only() -> None:
    """A verb's function imports its action, so that no call loads what another verb needs."""
    late = {path: len(list(list_late_imports(tree))) for path, tree in read_trees(HOME).items()}
    assert sum(late.values()) <= LATE_CAP, late


def test_parameters_have_types() -> None:
    """The type checker sees what the actions hand to each other."""
    untyped = {path: len(list(list_untyped(tree))) for path, tree in read_trees(HOME).items()}
    assert sum(untyped.values()) <= ANY_CAP, untyped


def test_the_counts_see_what_they_count() -> None:
    """Imports at the top and values of mappings are fine; not those in functions, nor ``Any``."""
    tree = ast.parse(
        "import a\ndef f(x: dict[str, Any], y: Any, z: Any | None):\n    import b\n"
        "    from c import d\n"
    )
    assert len(list(list_late_imports(tree))) == 2
    assert [node.arg for node in list_untyped(tree)] == ["y", "z"]


def ask_core(*words: str, absent: tuple[str, ...] = ABSENT) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that has what the core installation has."""
    command = [sys.executable, "-c", WITHOUT.format(absent), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("verb", ["--help", "worker --help", "load run --help", "doctor"])
def test_verbs_of_the_core_installation(verb: str) -> None:
    """Help, a worker's flags and the state of the machine need no planning part."""
    done = ask_core(*verb.split())
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("worker --name w --quota 1", "--quota: '1' has no unit"),
        ("load run nothing", "'nothing' has no readable manifest.json"),
        ("load show nothing", "'nothing' has no readable manifest.json"),
        ("zoo", "This command needs the planning part: in a checkout of Partita, pip install"),
    ],
)
def test_actions_of_the_core_installation(verb: str, told: str) -> None:
    """Their actions load without the planning part; another verb says what it lacks."""
    done = ask_core(*verb.split())
    assert done.returncode == 2
    assert told in done.stderr


def test_a_part_that_is_not_there_is_said_with_how_to_install_it() -> None:
    """Of what is served, its own extra: planning may be there all the same."""
    done = ask_core("serve", "plan.json", absent=("starlette", "uvicorn"))
    assert done.returncode == 2
    assert "This command needs the serving part: in a checkout" in done.stderr
    assert "'.[serve]'" in done.stderr
