"""What the benchmarks share: rows of a table, timing in turns, models, one-stage plans."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime as ort
from tests.models import LIGHT_MODELS, light_model

from partita.cli import inputs
from partita.cluster import Cluster
from partita.graph import Graph
from partita.plan import Identity, Plan, Shard, Stage
from partita.zoo import ZOO, build_model

ROOT = Path(__file__).resolve().parent.parent
CPU = "CPUExecutionProvider"
PAUSE_S = 0.03

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        ours: Our number, in ``unit``.
        peer: The peer's, measured in the same run; None where there is none.
        ratio: Ours over the peer's, or what else the target speaks of; None where there is none.
        target: What is wanted, in words.
        met: Whether it was reached; None where the row is there for comparison alone.
    """

    case: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    target: str
    met: bool | None


def at_most(case: str, unit: str, ours: float, most: float) -> Row:
    """Return the row of a number that has a limit."""
    return Row(case, unit, ours, None, None, f"<= {most:g} {unit}".rstrip(), bool(ours <= most))


def at_least(case: str, unit: str, ours: float, least: float) -> Row:
    """Return the row of a number that is to reach another."""
    return Row(case, unit, ours, None, None, f">= {least:g} {unit}".rstrip(), bool(ours >= least))


def shown(case: str, unit: str, ours: float, peer: float | None = None) -> Row:
    """Return a row that is there for comparison alone."""
    return Row(case, unit, ours, peer, None, "", None)


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that every benchmark has."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def report(rows: Sequence[Row], *, as_json: bool, notes: Mapping[str, Any] | None = None) -> int:
    """Print the rows; return 1 where a target was missed."""
    if as_json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "notes": dict(notes or {})}))
    else:
        print(f"{'case':44} {'unit':>6} {'ours':>10} {'peer':>10} {'ratio':>7}  target")
        for row in rows:
            mark = {True: "met", False: "MISSED", None: ""}[row.met]
            numbers = f"{row.ours:10.3f} {_number(row.peer, 10)} {_number(row.ratio, 7)}"
            print(f"{row.case:44} {row.unit:>6} {numbers}  {row.target} {mark}".rstrip())
        for name, value in (notes or {}).items():
            print(f"{name}: {value}")
    return 1 if any(row.met is False for row in rows) else 0


def _number(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.3f}"


def say(text: str) -> None:
    """Print a line of talk on stderr."""
    print(text, file=sys.stderr, flush=True)


def time_call(call: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def take_turns(
    calls: Mapping[str, Callable[[], object]], *, rounds: int, warm: int = 2
) -> dict[str, float]:
    """Return the median seconds of each call; they run in turns, so that all see the same machine.

    Each begins after a pause, in which threads of the one before stop to spin.

    Args:
        calls: What to time, by name.
        rounds: How often each is timed.
        warm: How often each runs before that.
    """
    for call in calls.values():
        for _ in range(warm):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        names = list(calls)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(PAUSE_S)
            times[name].append(time_call(calls[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def time_process(command: Sequence[str], *, rounds: int) -> float:
    """Return the median seconds of a whole process, its start included.

    Raises:
        RuntimeError: It failed; the message has its last words.
    """
    times = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        times.append(time.perf_counter() - start_s)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return statistics.median(times)


def partita(*arguments: str) -> list[str]:
    """Return the command line of a verb, in this interpreter."""
    code = "import sys; from partita.cli import start; sys.exit(start())"
    return [sys.executable, "-c", code, *arguments]


def find_model(name: str) -> onnx.ModelProto:
    """Return a model of the zoo, a light model of the onnx package, or the demo's detector.

    Raises:
        ValueError: The name is none of them.
    """
    if name in ZOO:
        return build_model(name)
    if name.removeprefix("light_") in LIGHT_MODELS:
        return light_model(name)
    if name == "plate-detector":
        from partita.demo.detector import detector_model

        return detector_model()
    known = ", ".join([*ZOO, *(f"light_{one}" for one in LIGHT_MODELS), "plate-detector"])
    raise ValueError(f"Model '{name}' is unknown; known are {known}.")


def draw_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Return values for every input: normal floats, or bytes."""
    return inputs.draw_inputs(graph.input_specs, 1, seed)[0]


def open_session(model: onnx.ModelProto, threads: int) -> Callable[[Arrays], list[Array]]:
    """Return bare ONNX Runtime: the function that runs ``model`` on so many threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    return lambda feeds: list(session.run(None, dict(feeds)))


def whole_plan(graph: Graph, cluster: Cluster, device: str) -> Plan:
    """Return the plan of one stage: the whole network on one device, one fragment."""
    names = tuple(layer.name for layer in graph.layers)
    return Plan(
        model=Identity(graph.name, graph.hash),
        cluster=Identity(cluster.name, cluster.hash),
        stages=(Stage("whole", names, "none", (Shard(device),)),),
        planner="whole",
    )
