"""Check the documentation against the code, and run the blocks that ask for it.

A fenced block is run when the line before it is ``<!-- run -->``: python blocks by the interpreter,
console blocks line by line after ``$ ``. All blocks of one file run in one empty folder, in order.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import surface

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("*.md", "*.py", "*.toml", "*.txt", "*.json", "Makefile")
BLOCK = re.compile(r"^<!-- run -->\n+```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Absolute paths of somebody's machine have no place in what others read.
FOREIGN_PATH = re.compile(r"(?<![\w./:-])/(?:home|root|Users|work|mnt)/\w|\.\./shared\b")
BLOCK_LIMIT_S = 300


@dataclass(frozen=True)
class Block:
    """A block of a document that is to be run."""

    where: str
    language: str
    text: str


def list_documents(root: Path = ROOT) -> list[Path]:
    """Return README and everything in ``docs``."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def list_blocks(path: Path) -> list[Block]:
    """Return the blocks of one document that are marked to be run."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(f"{path.name}:{text[: m.start(2)].count(chr(10)) + 1}", m.group(1), m.group(2))
        for m in BLOCK.finditer(text)
    ]


def find_unnamed(words: dict[str, str], text: str) -> list[str]:
    """Return a fault for each word (key: the word, value: its kind) that the text lacks."""
    return [
        f"{what} '{word}' is not in README.md or docs/. Describe it there."
        for word, what in words.items()
        if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)
    ]


def find_undocumented(text: str) -> list[str]:
    """Return a fault for each command, flag and exported name that the documents do not name."""
    words = dict.fromkeys(surface.list_names(), "Exported name")
    for verb, command in surface.list_commands().items():
        words[f"partita {verb}"] = "Command"
        words |= dict.fromkeys(command["flags"], f"Flag of 'partita {verb}'")
    return find_unnamed(words, text)


def find_foreign_paths(root: Path = ROOT) -> list[str]:
    """Return a fault for each line of the project that names a path of somebody's machine."""
    faults = []
    for path in _list_texts(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if FOREIGN_PATH.search(line) and path != Path(__file__).resolve():
                faults.append(f"{path.relative_to(root)}:{number} names a path of one machine.")
    return faults


def _list_texts(root: Path) -> Iterator[Path]:
    for folder in ("src", "tests", "tools", "docs", "benchmarks"):
        for pattern in TEXTS:
            yield from sorted((root / folder).rglob(pattern))
    for pattern in TEXTS:
        yield from sorted(root.glob(pattern))


def run_block(block: Block, folder: Path) -> str | None:
    """Run one block in ``folder``; return what went wrong, or None."""
    if block.language == "python":
        commands = [[sys.executable, "-c", block.text]]
    else:
        lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
        commands = [["bash", "-ec", line] for line in lines]
    for command in commands:
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=BLOCK_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return f"{block.where} took longer than {BLOCK_LIMIT_S} s: {command[-1]}"
        if done.returncode:
            return f"{block.where} failed ({done.returncode}): {command[-1]}\n{done.stderr}"
    return None


def run_blocks(path: Path) -> list[str]:
    """Run the marked blocks of one document in one empty folder; return the faults."""
    with tempfile.TemporaryDirectory() as folder:
        found = [run_block(block, Path(folder)) for block in list_blocks(path)]
    return [fault for fault in found if fault]


def main() -> int:
    """Check all documents; return 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the marked blocks too")
    options = parser.parse_args()
    documents = list_documents()
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents)
    faults = find_undocumented(text) + find_foreign_paths()
    if options.run:
        faults += [fault for path in documents for fault in run_blocks(path)]
    print("\n".join(faults) or f"docs: {len(documents)} documents agree with the code")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
