"""``partita install-worker``: what a board gets, and what is said where it gets nothing."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from partita.cli.actions import install_worker
from partita.errors import RunError
from partita.provision import install
from partita.provision.target import Target
from partita.provision.wheelhouse import make_wheelhouse
from tests.cli.conftest import Ask
from tests.fabric.sites import new_site
from tests.provision.boards import Board, write_wheel

COMMAND = ("install-worker", "pi@board", "--join", "site/nano.join")


@pytest.fixture
def board(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """A board that can have a worker; its wheels are one that needs nothing."""
    made = Board(tmp_path / "board")
    monkeypatch.setenv("PATH", made.path)

    def fetch(wheels: Path, target: Target, wheel: Path | None) -> None:
        write_wheel(wheels)

    monkeypatch.setattr(install, "make_wheelhouse", fetch)
    new_site(folder / "site")
    return made


@pytest.mark.slow
def test_a_board_gets_a_worker_and_a_newer_one(
    ask: Ask, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is in place, private where it must be; the next release takes over at once."""
    releases = iter(("1", "2", "3"))
    monkeypatch.setattr(install, "_name_release", lambda: next(releases))
    words = ("--worker-flags", "--threads 2", "--ssh-option", "Port=2222")
    done = ask(*COMMAND, *words, "--json")
    assert done.code == 0, done.err
    assert done.reply["supervisor"] == "none"
    assert all("-o Port=2222" in call for call in board.calls)
    home = board.home / "partita"
    assert sorted(path.name for path in home.iterdir()) == [
        "current",
        "flags",
        "member.join",
        "partita-worker.service",
        "releases",
    ]
    assert (home / "member.join").read_bytes() == Path("site/nano.join").read_bytes()
    assert stat.S_IMODE((home / "member.join").stat().st_mode) == 0o600
    assert (home / "flags").read_text(encoding="utf-8") == "FLAGS=--threads 2\n"
    command = [str(home / "current/bin/partita"), "worker"]
    assert subprocess.check_output(command, text=True) == "partita worker\n"
    for number, kept in (("2", {"1", "2"}), ("3", {"2", "3"})):
        assert ask(*COMMAND).code == 0
        assert os.readlink(home / "current").endswith(f"/releases/{number}")
        assert {path.name for path in (home / "releases").iterdir()} == kept


@pytest.mark.slow
def test_a_release_that_fails_leaves_the_old_one(
    ask: Ask, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an installation is removed, and the one before runs on."""
    assert ask(*COMMAND).code == 0
    home = board.home / "partita"
    before = os.readlink(home / "current")
    monkeypatch.setattr(install, "_name_release", lambda: "broken")
    monkeypatch.setattr(install, "make_wheelhouse", lambda *_: None)
    done = ask(*COMMAND)
    assert done.code == 4
    assert "No matching distribution found for partita" in done.err
    assert os.readlink(home / "current") == before
    assert [path.name for path in (home / "releases").iterdir()] == [Path(before).name]
    assert not (home / "incoming").exists()


def test_dry_run_changes_nothing(ask: Ask, board: Board) -> None:
    """The steps name platform, Python and commands; the board is looked at only."""
    done = ask(*COMMAND, "--dry-run", "--json")
    assert done.code == 0, done.err
    steps = "\n".join(done.reply["steps"])
    for words in ("--platform manylinux_2_", "scp -q -r", "pip install --no-index"):
        assert words in steps
    assert list(board.home.iterdir()) == []
    assert len(board.calls) == 1


@pytest.mark.parametrize(
    ("tool", "shell", "told"),
    [
        ("uname", "[ $1 = -s ] && echo Linux || echo armv7l", "it is Linux on armv7l"),
        ("uname", "echo Darwin", "allowed is 64-bit Linux"),
        ("getconf", "echo glibc 2.27", "it has glibc 2.27, allowed is glibc 2.28 or newer"),
        ("getconf", "exit 1", "it has no glibc"),
        ("df", "echo; echo / 1 1 1000 1% /", "has 1.02 MB left, needed are 400 MB"),
        ("python3.14", '[ "$2" = "import venv, ensurepip" ] && exit 1; echo 3.12', "3.12-venv"),
    ],
)
def test_boards_that_cannot_have_a_worker(
    ask: Ask, board: Board, tool: str, shell: str, told: str
) -> None:
    """One line says what they lack, and nothing is done there."""
    board.pretend(tool, shell)
    done = ask(*COMMAND)
    assert done.code == 4
    assert "Host 'pi@board' cannot have a worker" in done.err
    assert told in done.err
    assert list(board.home.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "told"), [("echo 3.9", "it has Python 3.9, needed"), ("exit 127", "it has no Python")]
)
def test_a_board_without_a_python_that_does(ask: Ask, board: Board, old: str, told: str) -> None:
    """None, and one that is too old, are told apart."""
    for minor in range(11, 15):
        board.pretend(f"python3.{minor}", "exit 1")
    board.pretend("python3", f'case "$2" in *exit*) exit 1;; esac; {old}')
    done = ask(*COMMAND)
    assert done.code == 4
    assert told in done.err


@pytest.mark.parametrize(
    ("shell", "told"),
    [
        ("echo 'ssh: connect to host board port 22: No route to host' >&2; exit 255", "No route"),
        ("case $* in *' none'*) echo 'No space left on device' >&2; exit 1;; esac", "full"),
    ],
)
def test_hosts_that_are_not_reached_or_full(ask: Ask, board: Board, shell: str, told: str) -> None:
    """ssh's own words, and those of the system there."""
    board.refuse(shell)
    done = ask(*COMMAND)
    assert done.code == 4
    assert told in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-oProxyCommand=x", "--join", "site/nano.join"), "No such option"),
        (("board", "--join", "site/leader.join"), "is a leader's"),
        (("board", "--join", "none.join"), "cannot be read"),
        (("board", "--join", "site/nano.join", "--wheel", "none.whl"), "--wheel 'none.whl'"),
        (("board", "--join", "site/nano.join", "--worker-flags", "a 'b"), "allowed is one line"),
        (
            (*COMMAND[1:], "--worker-flags", "--thraeds 2"),
            "--worker-flags: No such option: --thraeds",
        ),
        ((*COMMAND[1:], "--worker-flags", "--threads x"), "--worker-flags: Invalid value for"),
        ((*COMMAND[1:], "--worker-flags", "--quota 1"), "--worker-flags: --quota: '1' has no unit"),
        ((*COMMAND[1:], "--worker-flags", "--name b"), "--name does not go with --join"),
        (("board", "--join", "site/nano.join", "--worker-flags", "a\nUser=b"), "one line"),
    ],
)
def test_what_cannot_be_is_one_line(
    ask: Ask, board: Board, words: tuple[str, ...], told: str
) -> None:
    """Wrong arguments are told before any host is asked."""
    done = ask("install-worker", *words)
    assert done.code == 2
    assert told in done.message
    assert board.calls == []


def test_a_name_that_ssh_takes_for_a_flag(board: Board) -> None:
    """Also where the command line lets it pass."""
    wanted = install_worker.read_wanted(Path("site/nano.join"), None, "")
    with pytest.raises(install_worker.InputError, match="allowed is a host's name"):
        install_worker.install_on("-oProxyCommand=x", (), wanted, is_dry=True)


def test_no_wheel_for_the_platform(tmp_path: Path) -> None:
    """What pip says of a wheel that nothing supports."""
    wheel = write_wheel(tmp_path)
    odd = wheel.with_name("partita-9.9-cp39-cp39-win32.whl")
    shutil.copy(wheel, odd)
    target = Target("python3", "3.12", "x86_64", 28, "none")
    (tmp_path / "wheels").mkdir()
    with pytest.raises(RunError, match=r"pip download: .*is not a supported wheel"):
        make_wheelhouse(tmp_path / "wheels", target, odd)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Systemd's own check has nothing to say of it, but that the command is not there yet."""
    unit = tmp_path / install.UNIT
    unit.write_text(install.read_part(install.UNIT), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if unit.name in line]
    assert all("is not executable" in line for line in faults)


def test_the_document_shows_the_unit() -> None:
    """Who installs by hand copies what install-worker writes."""
    document = Path(__file__).parents[2] / "docs" / "deploying.md"
    assert install.read_part(install.UNIT).strip() in document.read_text(encoding="utf-8")
