"""Check that files, functions and signatures stay small; print the medians."""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools", "benchmarks")
FILE_CAP_LINES = 400
FUNCTION_CAP_LINES = 50
POSITIONAL_CAP = 5
#: Whose functions are verbs of the command line: their flags are named, never positional.
COMMANDS = "cli/commands/"


@dataclass(frozen=True)
class Function:
    """One function: where it is, how long, and how many positional parameters it takes."""

    where: str
    lines: int
    positional: int


def list_functions(tree: ast.Module, path: str) -> Iterator[Function]:
    """Yield every function of a module; ``self`` and ``cls`` do not count as parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            bound = bool(names) and names[0] in ("self", "cls")
            is_command = COMMANDS in path
            length = count_lines(node, is_command)
            positional = 0 if is_command else len(names) - bound
            yield Function(f"{path}:{node.lineno} {node.name}", length, positional)


def count_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, is_command: bool) -> int:
    """Return a function's lines: those of functions inside count for themselves alone.

    A verb of the command line counts from its docstring on: the list of its flags is no logic.
    """
    first = node.body[0].lineno if is_command else node.lineno
    inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    nested = sum((one.end_lineno or one.lineno) - one.lineno + 1 for one in inner)
    return (node.end_lineno or node.lineno) - first + 1 - nested


def find_faults(path: str, source: str) -> tuple[list[str], list[Function]]:
    """Return what breaks a cap in one file, one line each, and the file's functions."""
    faults = []
    lines = source.count("\n")
    if lines > FILE_CAP_LINES:
        faults.append(f"{path} is too long: {lines} lines, {FILE_CAP_LINES} allowed.")
    try:
        functions = list(list_functions(ast.parse(source), path))
    except SyntaxError as error:
        return [f"{path}:{error.lineno} is no Python: {error.msg}."], []
    for function in functions:
        if function.lines > FUNCTION_CAP_LINES:
            faults.append(
                f"{function.where} is too long: {function.lines} lines,"
                f" {FUNCTION_CAP_LINES} allowed."
            )
        if function.positional > POSITIONAL_CAP:
            faults.append(
                f"{function.where} takes too many positional parameters: {function.positional},"
                f" {POSITIONAL_CAP} allowed. Group them in a frozen dataclass."
            )
    return faults, functions


def check_folder(root: Path, folder: str) -> list[str]:
    """Return the faults of one folder and print its medians."""
    faults: list[str] = []
    file_lines: list[int] = []
    function_lines: list[int] = []
    for path in sorted((root / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        found, functions = find_faults(str(path.relative_to(root)), source)
        faults += found
        file_lines.append(source.count("\n"))
        function_lines += [function.lines for function in functions]
    if function_lines:
        print(
            f"{folder}: {len(file_lines)} files, median {statistics.median(file_lines):.0f} lines;"
            f" {len(function_lines)} functions, median {statistics.median(function_lines):.0f}"
        )
    return faults


def main() -> int:
    """Check all folders; return 1 where a cap is broken."""
    faults = [fault for folder in FOLDERS for fault in check_folder(ROOT, folder)]
    print("\n".join(faults) or "sizes: all within the caps")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
