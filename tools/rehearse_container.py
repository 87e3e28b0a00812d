"""Run the steps of ``deploy/Containerfile`` where no image can be built: in a bare Debian's root.

    python -m tools.rehearse_container DIR [--suite trixie] [--arg EXTRAS=serve] [--bind PATH]...

Needs root, debootstrap, and a wheel in ``dist/`` (``make wheel``). Every stage is a folder in DIR,
which begins as a Debian with Python, as the images of the file do. The worker is then started as
the image would be: not as root, with a root file system that cannot be written, its store apart;
``partita doctor`` has to find it ready.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from partita.lab.ports import free_addresses

_FILE = Path("deploy/Containerfile")
_PACKAGES = "python3,python3-venv,ca-certificates"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READY_S = 30.0
_CLUSTER = """
[cluster]
name = "lab"
requester = "here"

[[device]]
name = "here"
kind = "raspberry-pi-4"
address = "{address}"
"""


@dataclass
class Stage:
    """A stage of the file: its root, and what its steps have set."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    user: str = "0:0"
    volume: str = ""
    entry: list[str] = field(default_factory=list)


def read_steps(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Containerfile with what follows each.

    >>> list(read_steps("# a\\nFROM x AS y\\nRUN a \\\\\\n  b\\n"))
    [('FROM', 'x AS y'), ('RUN', 'a   b')]
    """
    whole = text.replace("\\\n", "")
    for line in whole.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def build(base: Path, folder: Path, arguments: Mapping[str, str], binds: Sequence[Path]) -> Stage:
    """Run all steps; the last stage."""
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for word, rest in read_steps(_FILE.read_text(encoding="utf-8")):
        print(f"{word} {rest}", flush=True)
        words = shlex.split(rest)
        if word == "FROM":
            stage = Stage(folder / f"stage-{len(stages)}")
            shutil.rmtree(stage.root, ignore_errors=True)
            subprocess.run(["cp", "-a", base, stage.root], check=True)
            stages[words[2] if len(words) == 3 else "last"] = stage
        elif word == "ARG":
            name, _, value = rest.partition("=")
            stage.environment[name] = arguments.get(name, value)
        elif word == "COPY":
            _copy(words, stages, stage)
        elif word == "RUN":
            _run(stage, rest, binds)
        elif word == "ENV":
            stage.environment |= dict(one.split("=", 1) for one in words)
        elif word == "USER":
            stage.user = rest
        elif word == "VOLUME":
            stage.volume = rest
        elif word == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif word != "CMD":
            raise SystemExit(f"{_FILE}: {word} is not known here")
    return stage


def _copy(words: Sequence[str], stages: Mapping[str, Stage], stage: Stage) -> None:
    """Copy a folder of another stage, or of the checkout."""
    source = Path()
    if words[0].startswith("--from="):
        source, words = stages[words[0].removeprefix("--from=")].root, words[1:]
    target = stage.root / words[1].strip("/")
    shutil.copytree(source / words[0].strip("/"), target, symlinks=True, dirs_exist_ok=True)


def _run(stage: Stage, command: str, binds: Sequence[Path]) -> None:
    """Run a shell command in a stage, which sees some paths of this machine meanwhile."""
    lines = []
    for path in binds:
        inside = stage.root / path.relative_to("/")
        (inside.mkdir if path.is_dir() else inside.parent.mkdir)(parents=True, exist_ok=True)
        if not path.is_dir():
            inside.touch()
        lines.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(inside))}")
    lines.append(f"exec chroot {shlex.quote(str(stage.root))} /bin/sh -c {shlex.quote(command)}")
    passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "\n".join(lines)],
        env={**passed, **stage.environment},
        check=True,
    )


def start(stage: Stage, store: Path, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start what the image runs: as its user, with a root that is read-only but for its volume."""
    store.mkdir(exist_ok=True)
    user, group = map(int, stage.user.split(":"))
    os.chown(store, user, group)
    root = shlex.quote(str(stage.root))
    command = shlex.join([*stage.entry, *words])
    tried = shlex.quote(f"! touch /var/tmp/x 2>/dev/null && exec {command}")
    script = f"""
        mount --bind {root} {root}
        mount -t proc proc {root}/proc
        mount --rbind /dev {root}/dev
        mount --rbind /sys {root}/sys
        mount -t tmpfs tmpfs {root}/tmp
        mount --bind {shlex.quote(str(store))} {root}{stage.volume}
        mount -o remount,bind,ro {root}
        exec chroot --userspec={stage.user} {root} /bin/sh -c {tried}
    """
    with log.open("wb") as file:
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", script], stderr=file, env=stage.environment
        )


def check_worker(stage: Stage, folder: Path) -> None:
    """Start a worker, ask whether it is ready, and end it.

    Raises:
        SystemExit: It is not, is root, or does not end in order.
    """
    (address,) = free_addresses(1)
    log = folder / "worker.log"
    words = ["worker", "--name", "here", "--listen", address, "--store", f"{stage.volume}/store"]
    process = start(stage, folder / "store", words, log)
    try:
        deadline_s = time.monotonic() + _READY_S
        while b"listens on" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"the worker did not start: {log.read_text()}")
            time.sleep(0.1)
        status = Path(f"/proc/{process.pid}/status").read_text()
        user = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1]
        (folder / "here.toml").write_text(_CLUSTER.format(address=address))
        doctor = "from partita.cli import start; raise SystemExit(start())"
        cluster = str(folder / "here.toml")
        subprocess.run([sys.executable, "-c", doctor, "doctor", "--cluster", cluster], check=True)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(_READY_S)
    if code or user != stage.user.partition(":")[0]:
        raise SystemExit(f"the worker ran as {user} and ended with exit code {code}")
    print(f"The worker ran as user {user} on a root that is read-only, and ended in order.")


def main() -> int:
    """Make what is missing, run all steps, and try the worker."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bind", action="append", default=[], type=Path, metavar="PATH")
    given = parser.parse_args()
    folder = given.folder.resolve()
    base = folder / given.suite
    if not base.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=folder))
        include = f"--include={_PACKAGES}"
        subprocess.run(["debootstrap", "--variant=minbase", include, given.suite, half], check=True)
        (half / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        half.chmod(0o755)
        half.rename(base)
    binds = [Path("/etc/resolv.conf"), *given.bind]
    arguments = dict(one.split("=", 1) for one in given.arg)
    check_worker(build(base, folder, arguments, binds), folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
