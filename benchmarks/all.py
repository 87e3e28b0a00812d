"""Run every benchmark, one after the other, and write their table to ``docs/benchmarks.md``.

    python -m benchmarks.all [--only NAME...] [--output FILE] [--json FILE]

Those that take long (``distredge`` trains for hours) run only when named.
A benchmark that was not run or that failed has a row that says so. With ``--json`` what the
benchmarks said is kept in FILE, and those not run this time are taken from it, so that one of them
can be repeated. Some 25 minutes on two cores, two of them for damaged inputs and files; the machine
should be doing nothing else.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import ROOT, say

MOST_S = 3600.0
RAN, NOT_RUN = "ran", "not run"


@dataclass(frozen=True)
class Benchmark:
    """One script.

    Attributes:
        measure: What it measures, for people.
        peer: What it compares with.
        flags: Besides ``--json``.
        most_s: It is ended after so long.
        is_long: Whether it runs only when named.
    """

    name: str
    measure: str
    peer: str
    flags: tuple[str, ...] = ()
    most_s: float = MOST_S
    is_long: bool = False

    @property
    def command(self) -> str:
        """What a person types."""
        return " ".join(("python -m", f"benchmarks.{self.name}", *self.flags))


BENCHMARKS = (
    Benchmark("exactness", "Divided network against the whole one", "ONNX Runtime, whole model"),
    Benchmark("backend", "The backend tests of onnx, divided", "ONNX Runtime, whole model"),
    Benchmark("overhead", "One local worker", "ONNX Runtime, same threads"),
    Benchmark("scaling", "Two workers", "ONNX Runtime, one thread"),
    Benchmark("prediction", "Predicted latency", "measured latency"),
    Benchmark("boards", "Boards with TLS, shaped links", "measured latency", is_long=True),
    Benchmark("emulated", "DistrEdge's clusters, emulated", "measured latency", is_long=True),
    Benchmark("rates", "Requests per second, emulated", "predicted, or what the row names"),
    Benchmark("tuning", "Profiles wrong by 2x", "the plan of right profiles"),
    Benchmark("routes", "Replicas of unequal speed", "the rule or measurement that the row names"),
    Benchmark("transport", "Tensors through the fabric", "plain blocking socket, or ideal link"),
    Benchmark("packing", "Codes to payloads and back", "bit planes by NumPy's own packing"),
    Benchmark("compressed", "Compressed payloads on the lab", "measured, where there is one"),
    Benchmark("integer_kernels", "8-bit networks on integer kernels", "their own floats"),
    Benchmark("accuracy", "Accuracy in fewer bits", "their own floats, or the paper", is_long=True),
    Benchmark("planning", "Planning", "`inspect`: onnx alone, reading and shape inference"),
    Benchmark("optimality", "Small networks", "trying every plan", is_long=True),
    Benchmark("edge_cloud", "Edge and cloud", "trying everything", is_long=True),
    Benchmark("edge_cloud_lab", "Edge and cloud, on the lab", "all on one side", is_long=True),
    Benchmark("choices", "Fewer bits within a drop", "the network as it is", is_long=True),
    Benchmark("edge_search", "AUTO-SPLIT's search on one core", "none", is_long=True),
    Benchmark("tiers", "Device, gateway and cloud, in bits", "`autosplit`", is_long=True),
    Benchmark(
        "edge_cloud_zoo",
        "AUTO-SPLIT on its paper's networks",
        "the sooner of all in the cloud and all on the edge",
        is_long=True,
    ),
    Benchmark("memory_fit", "Devices with little memory", "trying every plan", is_long=True),
    Benchmark("resident", "Predicted memory", "memory that workers hold"),
    Benchmark("bounds", "Lower bound", "the plan of `best`", is_long=True),
    Benchmark("budget", "A long search", "a short one", is_long=True),
    Benchmark("throughput", "Requests per second", "what the row names", is_long=True),
    Benchmark("growth", "Planning of ever more devices and layers", "none", is_long=True),
    Benchmark(
        "distredge",
        "DistrEdge's clusters, simulated",
        "the methods that each row names",
        most_s=12 * MOST_S,
        is_long=True,
    ),
    Benchmark(
        "loading",
        "File to first answer",
        "the plain file, or what the row names",
        most_s=4 * MOST_S,
        is_long=True,
    ),
    Benchmark(
        "separable_training", "Training of separable networks", "the plain network", is_long=True
    ),
    Benchmark(
        "separable_lab",
        "Separable networks on four devices",
        "the plain network, divided or not",
        most_s=4 * MOST_S,
        is_long=True,
    ),
    Benchmark("personalisation", "The last child trained", "PyTorch, whole model", is_long=True),
    Benchmark(
        "distredge_time",
        "DistrEdge in equal time",
        "AOFL; the control that never learns",
        is_long=True,
    ),
    Benchmark("front", "Models behind HTTP", "the same session, and an echo", is_long=True),
    Benchmark("streams", "Streams of pictures", "`Session.run`, decoded beforehand"),
    Benchmark("mutate", "Damaged inputs", "none"),
    Benchmark("fuzz_models", "Damaged model files", "none"),
    Benchmark("live_page", "What looking on costs", "none"),
    Benchmark("footprint", "Size of a worker", "ONNX Runtime and NumPy alone"),
    Benchmark("answers", "The leader's growth", "none"),
    Benchmark("chaos", "Devices, cables and links lost", "cases of the kind", is_long=True),
    Benchmark("recovery", "Devices lost and back", "none", is_long=True),
    Benchmark("takeover", "A service killed and started again", "none", is_long=True),
    Benchmark("soak", "Half an hour of faults", "none", is_long=True),
)


def run(one: Benchmark) -> dict[str, Any]:
    """Run one benchmark and return its JSON object, with how it went under ``state``."""
    say(f"== {one.command}")
    command = [sys.executable, "-m", f"benchmarks.{one.name}", *one.flags, "--json"]
    start_s = time.monotonic()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, timeout=one.most_s, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"state": f"took longer than {one.most_s:.0f} s"}
    if done.returncode < 0:
        return {"state": f"ended from outside by signal {-done.returncode}"}
    found = parse(done.stdout)
    # 1 says that a target was missed: its rows are there all the same.
    if found is None or done.returncode not in (0, 1):
        return {"state": f"failed with exit code {done.returncode}"}
    return found | {"state": RAN, "wall_s": time.monotonic() - start_s}


def parse(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a benchmark's output; None where there is none with rows."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("rows"), list):
            return found
    return None


def write_page(results: dict[str, dict[str, Any]], before: str = "") -> str:
    """Return the document: what is measured on what, and the table.

    Args:
        results: Of those that were run, by name.
        before: The page as it was, which the rows of all others are taken from.
    """
    machine = next((line for line in before.splitlines() if line.startswith("Machine: ")), "")
    is_here = not machine or processor() in machine
    lines = [
        "# Benchmarks",
        "",
        "Written by `make benchmarks` (`python -m benchmarks.all`); each row is measured beside its"
        " peer in the",
        "same run, and numbers are medians. *Ratio* is ours over the peer's, unless the target says"
        " otherwise.",
        "",
        *(describe_machine() if is_here else kept_machine(before)),
        "",
        "| measure | peer | ours | ratio | target | met | command |",
        "|---|---:|---:|---:|---|---|---|",
    ]
    for one in BENCHMARKS:
        if one.name in results:
            lines += list_rows(one, results[one.name], "" if is_here else f" on {processor()}")
        else:
            lines += kept_rows(one, before) or list_rows(one, {"state": NOT_RUN})
    lines += ["", "Peers:", ""]
    for one in BENCHMARKS:
        lines += list_peer(one, "" if one.name in results else before)
    return "\n".join(lines) + "\n"


def kept_machine(before: str) -> list[str]:
    """Return the lines on the machine that most rows are from."""
    lines = before.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("Machine: "))
    return lines[first : lines.index("", first)]


def list_peer(one: Benchmark, before: str) -> list[str]:
    """Return what a benchmark compares with, with what was noted there by hand."""
    first = f"- {one.measure}: {one.peer}."
    lines = before.splitlines()
    for place, line in enumerate(lines):
        if line.startswith(first):
            rest = takewhile(lambda text: not text.startswith("- "), lines[place + 1 :])
            return [line, *rest]
    return [first]


def kept_rows(one: Benchmark, before: str) -> list[str]:
    """Return the rows of a benchmark that the page has."""
    heads = (f"| {one.measure}: ", f"| {one.measure} |")
    return [line for line in before.splitlines() if line.startswith(heads)]


def describe_machine() -> Iterator[str]:
    memory = psutil.virtual_memory().total / 1e9
    parts = ("onnxruntime", "eclipse-zenoh", "onnx", "numpy", "scipy")
    yield f"Machine: {processor()}, {psutil.cpu_count()} cores, {memory:.0f} GB;"
    yield f"{platform.system()} {platform.release()}, Python {platform.python_version()};"
    yield ", ".join(f"{name} {version(name)}" for name in parts) + "."


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def list_rows(one: Benchmark, found: dict[str, Any], where: str = "") -> Iterator[str]:
    if found["state"] != RAN:
        yield table_row(one.measure, "", "", "", "", found["state"], f"`{one.command}`{where}")
        return
    for number, row in enumerate(found["rows"]):
        command = f"`{one.command}`{where}" if number == 0 else ""
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        name = f"{one.measure}: {row['case']}"
        ours, peer = (amount(row[key], row["unit"]) for key in ("ours", "peer"))
        yield table_row(name, peer, ours, ratio, row["target"], met, command)


def amount(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.3g} {unit}".strip()


def table_row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def select(names: Sequence[str] | None) -> list[Benchmark]:
    known = {one.name: one for one in BENCHMARKS}
    if names is None:
        return [one for one in BENCHMARKS if not one.is_long]
    return [known[name] for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[one.name for one in BENCHMARKS])
    parser.add_argument("--output", type=Path, default=ROOT / "docs/benchmarks.md")
    parser.add_argument("--json", type=Path, help="write what was measured here, too")
    args = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    before = args.output.read_text() if args.output.exists() else ""
    for one in select(args.only):
        results[one.name] = run(one)
        # After each, so that an interruption loses nothing.
        args.output.write_text(write_page(results, before))
        if args.json is not None:
            args.json.write_text(json.dumps(results))
    say(f"written to {args.output}")
    rows = [row for found in results.values() for row in found.get("rows", ())]
    failed = [name for name, found in results.items() if found["state"] != RAN]
    return 1 if failed or any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
