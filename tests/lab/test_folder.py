"""The folder of a lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from partita.lab.folder import open_folder

_HOLD = """
import sys, time
from pathlib import Path
from partita.lab.folder import open_folder
with open_folder(Path(sys.argv[1])) as folder:
    (folder / "a.log").write_text("words")
    print("there", flush=True)
    time.sleep(60)
"""


def test_the_folder_of_a_killed_lab_is_swept_by_the_next(tmp_path: Path) -> None:
    """SIGKILL leaves a folder; the next lab deletes it, and none of a lab that lives."""
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        (left,) = tmp_path.iterdir()
        with open_folder(tmp_path):
            assert (left / "a.log").read_text() == "words"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert left.exists()
    with open_folder(tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_leaves_the_folder(tmp_path: Path) -> None:
    """A child process that leaves the context deletes nothing of its parent's."""
    context = open_folder(tmp_path)
    folder = context.__enter__()
    child = os.fork()
    if child == 0:
        context.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.exists()
    context.__exit__(None, None, None)
    assert not folder.exists()


def test_foreign_folders_stay(tmp_path: Path) -> None:
    """A folder of that name without a lock is not a lab's, or not yet."""
    (tmp_path / "partita-lab-mine").mkdir()
    with open_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["partita-lab-mine"]
