"""What a worker takes: the core installation on disk, an idle worker's memory and processor time.

Builds the wheel, installs it with its core dependencies in a fresh virtual environment, and starts
a worker from there; for processor time four that hear of each other. The peers: the same
environment's ONNX Runtime and NumPy alone.

    python -m benchmarks.footprint [--keep FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.harness import ROOT, Row, make_parser, report, say
from partita.lab.ports import free_addresses

MOST_DISK_BYTES, MOST_MEMORY_BYTES, MOST_CORE_SHARE = 300e6, 120e6, 0.01
ENGINE = ("onnxruntime", "onnxruntime.libs", "numpy", "numpy.libs")
#: Holds what an engine needs, and waits.
IDLE = "import onnxruntime, sys; print('ready', flush=True); sys.stdin.read()"
SETTLE_S = 2.0
#: Processor time is counted in steps of 10 ms: 20 s show a twentieth of a percent.
WATCH_S = 20.0
WORKERS = 4


#: Nothing of this interpreter's own packages may be seen from the fresh environment.
CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run(*command: str) -> None:
    say(" ".join(command))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=CLEAN)


def install(folder: Path) -> Path:
    """Return the Python of a fresh environment with the built wheel and its core dependencies."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT))
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = folder / "venv/bin/python"
    wheel = next(folder.glob("partita-*.whl"))
    constraints = str(ROOT / "constraints.txt")
    run(str(python), "-m", "pip", "install", "--quiet", "-c", constraints, str(wheel))
    return python


def disk_bytes(folder: Path) -> int:
    """Return what the files of a folder take on disk, in whole blocks; links count nothing."""
    files = (Path(top) / name for top, _, names in os.walk(folder) for name in names)
    return sum(f.stat().st_blocks * 512 for f in files if not f.is_symlink())


def packages(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python3*")) / "site-packages"


@contextlib.contextmanager
def running(command: list[str], ready: str, store: Path) -> Iterator[psutil.Process]:
    """Yield an idle process, some time after it says that it is ready."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**CLEAN, "XDG_CACHE_HOME": str(store)},
    )
    try:
        for line in _lines(process):
            if ready in line:
                break
        time.sleep(SETTLE_S)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def resident_bytes(command: list[str], ready: str, store: Path) -> int:
    """Return the resident memory of an idle process."""
    with running(command, ready, store) as process:
        return int(process.memory_info().rss)


def core_share(python: Path, store: Path) -> float:
    """Return the processor time per second of one of several idle workers."""
    with contextlib.ExitStack() as stack:
        first = worker_command(python)
        processes = [stack.enter_context(running(first, "listens", store))]
        for number in range(1, WORKERS):
            other = worker_command(python, f"idle{number}", "--connect", first[-1])
            processes.append(stack.enter_context(running(other, "listens", store)))
        time.sleep(SETTLE_S)
        before = processes[0].cpu_times()
        time.sleep(WATCH_S)
        after = processes[0].cpu_times()
    return float(after.user - before.user + after.system - before.system) / WATCH_S


def worker_command(python: Path, name: str = "idle", *more: str) -> list[str]:
    address, *_ = free_addresses(1)
    return [str(python.parent / "partita"), "worker", "--name", name, *more, "--listen", address]


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    if process.stdout is None:
        return
    said = []
    for line in process.stdout:
        said.append(line)
        yield line
    raise RuntimeError(f"the process ended: {''.join(said)}")


def measure(folder: Path) -> list[Row]:
    python = install(folder)
    site = packages(python)
    whole = disk_bytes(folder / "venv")
    engine = sum(disk_bytes(site / name) for name in ENGINE if (site / name).exists())
    ours = resident_bytes(worker_command(python), "listens", folder)
    peer = resident_bytes([str(python), "-c", IDLE], "ready", folder)
    rows = []
    for case, value, other, most in (
        ("core installation on disk, pip included", whole, engine, MOST_DISK_BYTES),
        ("memory of an idle worker", ours, peer, MOST_MEMORY_BYTES),
    ):
        target = f"<= {most / 1e6:.0f} MB"
        rows.append(Row(case, "MB", value / 1e6, other / 1e6, value / other, target, value <= most))
    share = core_share(python, folder)
    case, target = f"processor time of one of {WORKERS} idle workers", f"<= {MOST_CORE_SHARE:.0%}"
    is_met = share <= MOST_CORE_SHARE
    rows.append(Row(case, "% of a core", share * 100, None, None, target, is_met))
    return rows


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--keep", type=Path, help="build here and keep it")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
        return report(measure(args.keep.resolve()), as_json=args.json)
    with tempfile.TemporaryDirectory() as name:
        return report(measure(Path(name)), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
