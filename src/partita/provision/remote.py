"""Another machine, reached by the system's ``ssh`` and ``scp``."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partita.errors import RunError

#: ssh's own exit code where it does not get as far as the command.
_SSH_FAILED = 255


@dataclass(frozen=True)
class Host:
    """A machine.

    Attributes:
        name: As ssh knows it, ``board`` or ``pi@192.0.2.7``.
        options: As in ssh's configuration, such as ``Port=2222``; for scp, too.
    """

    name: str
    options: tuple[str, ...] = ()

    def script(self, *arguments: str) -> list[str]:
        """The command that runs a shell script there, which it reads from its input."""
        return ["ssh", *self._flags(), self.name, shlex.join(["sh", "-s", "--", *arguments])]

    def copy(self, folder: Path, place: str) -> list[str]:
        """The command that copies a folder there."""
        return ["scp", "-q", "-r", *self._flags(), str(folder), f"{self.name}:{place}"]

    def run_script(self, text: str, *arguments: str) -> str:
        """What a shell script prints there.

        Raises:
            RunError: The host is not reached, or the script fails; the message has its last line.
        """
        return self._run(self.script(*arguments), text)

    def send(self, folder: Path, place: str) -> None:
        """Copy a folder there.

        Raises:
            RunError: It cannot be copied.
        """
        self._run(self.copy(folder, place), "")

    def _flags(self) -> Sequence[str]:
        # Nobody is there to answer: what would ask for a password fails, and says so.
        options = ("BatchMode=yes", "ConnectTimeout=10", *self.options)
        return [word for option in options for word in ("-o", option)]

    def _run(self, command: list[str], text: str) -> str:
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise RunError(f"There is no '{command[0]}' on this machine: {error}.") from None
        if done.returncode:
            raise self._describe(command[0], done)
        return done.stdout

    def _describe(self, tool: str, done: subprocess.CompletedProcess[str]) -> RunError:
        lines = done.stderr.strip().splitlines()
        why = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        if any("No space left on device" in line for line in lines):
            why = "its disk is full: make room"
        what = "is not reached" if done.returncode == _SSH_FAILED else f"refuses ({tool})"
        return RunError(f"Host '{self.name}' {what}: {why}", device=self.name)
