"""A board for tests: ``ssh`` and ``scp`` that run all on this machine, in a home of its own."""

from __future__ import annotations

import os
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

_SSH = """#!/bin/sh
echo "ssh $*" >> {log}
{refusal}
for last; do :; done
export HOME={home} PATH={tools}:$PATH PARTITA_SYSTEMD={home}/no-systemd
cd "$HOME" && exec sh -c "$last"
"""
_SCP = """#!/bin/sh
echo "scp $*" >> {log}
for target; do from=$last; last=$target; done
exec cp -r "$from" "{home}/${{target#*:}}"
"""
#: Environments without a pip of their own are made ten times as fast.
_PYTHON = """#!/bin/sh
[ "$2" = venv ] && exec PYTHON -m venv --without-pip --system-site-packages "$3"
exec PYTHON "$@"
"""
_MAIN = """import sys

def main():
    print("partita", *sys.argv[1:])
"""


@dataclass
class Board:
    """The board.

    Attributes:
        home: Its user's home.
        tools: Programs that it has instead of this machine's.
        log: What was called.
    """

    root: Path
    home: Path = field(init=False)
    tools: Path = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home, self.tools = self.root / "home", self.root / "tools"
        self.log = self.root / "log"
        for folder in (self.home, self.tools, self.root / "bin"):
            folder.mkdir(parents=True)
        self.log.touch()
        self.refuse("")
        self._write(self.root / "bin" / "scp", _SCP)
        self._write(self.tools / "python3.14", _PYTHON.replace("PYTHON", sys.executable))

    @property
    def path(self) -> str:
        """The PATH with which it is reached."""
        return f"{self.root / 'bin'}:{os.environ['PATH']}"

    @property
    def calls(self) -> list[str]:
        """What was called, in order."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def refuse(self, shell: str) -> None:
        """Let ssh do something else before it runs a command."""
        self._write(self.root / "bin" / "ssh", _SSH, refusal=shell)

    def pretend(self, tool: str, shell: str) -> None:
        """Replace one of its programs."""
        path = self.tools / tool
        path.unlink(missing_ok=True)
        self._write(path, f"#!/bin/sh\n{shell}\n")

    def _write(self, path: Path, text: str, refusal: str = "") -> None:
        if "{" in text:
            text = text.format(home=self.home, tools=self.tools, log=self.log, refusal=refusal)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def write_wheel(folder: Path) -> Path:
    """A wheel called partita that needs nothing, whose command prints its arguments."""
    name = "partita-9.9"
    path = folder / f"{name}-py3-none-any.whl"
    parts = {
        "partita_stub.py": _MAIN,
        f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: partita\nVersion: 9.9\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": "[console_scripts]\npartita = partita_stub:main\n",
    }
    record = "".join(f"{part},,\n" for part in [*parts, f"{name}.dist-info/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in {**parts, f"{name}.dist-info/RECORD": record}.items():
            archive.writestr(part, text)
    return path
