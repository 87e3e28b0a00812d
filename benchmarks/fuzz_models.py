"""Mutated model files: each is read, or refused in one line; nothing hangs, crashes or swells.

    python -m benchmarks.fuzz_models [--count N] [--seed N] [--keep FOLDER] [--json]

Small models are mutated byte by byte and field by field, and each is read in a process apart. What
becomes neither a graph nor one line of a ``ModelError`` is a fault, and kept in the folder; the
exit code is 1 where there is one.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.harness import Row, at_most, make_parser, report, say

#: Seconds that one model of a few kilobytes may take, on a machine that does other things, too.
MOST_S = 30.0
#: Memory that reading may take.
MOST_BYTES = 2 * 10**9
_NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**40, 2**62)


@dataclass(frozen=True)
class Outcome:
    """What became of one file: ``read``, ``refused``, or a fault."""

    kind: str
    detail: str
    seconds: float
    peak_bytes: int

    @property
    def is_fault(self) -> bool:
        """Whether it is neither read nor refused within bounds."""
        return self.kind not in ("read", "refused")


def base_models() -> list[bytes]:
    """Small models that hold what files hold: weights, constants, bodies, states, text."""
    floats = TensorProto.FLOAT
    rng = np.random.default_rng(0)

    def model(nodes: list[onnx.NodeProto], **weights: Any) -> bytes:
        inputs = [helper.make_tensor_value_info("x", floats, [1, 3, 8, 8])]
        outputs = [helper.make_tensor_value_info("y", floats, None)]
        tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
        graph = helper.make_graph(nodes, "fuzz", inputs, outputs, tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(made.SerializeToString())

    node = helper.make_node
    kernel = rng.standard_normal((4, 3, 3, 3), np.float32)
    conv = node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1], strides=[1, 1], group=1)
    channels = {name: np.full(4, 0.5, np.float32) for name in "sbmv"}
    body = helper.make_graph(
        [node("Relu", ["t"], ["u"])], "body", [], [helper.make_tensor_value_info("u", floats, None)]
    )
    value = numpy_helper.from_array(np.array([1, -1], np.int64), "shape")
    lstm = {
        "W": rng.standard_normal((1, 8, 64), np.float32),
        "R": rng.standard_normal((1, 8, 2), np.float32),
        "to": np.array([3, 1, 64]),
    }
    return [
        model([conv, node("BatchNormalization", ["t", *"sbmv"], ["n"]), node("Relu", ["n"], ["y"])],
              w=kernel, **channels),
        model([conv, node("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
               node("Constant", [], ["shape"], value=value), node("Reshape", ["p", "shape"], ["f"]),
               node("Softmax", ["f"], ["y"], axis=-1)], w=kernel),
        model([conv, node("ReduceMax", ["t"], ["m"], keepdims=0),
               node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
               node("If", ["c"], ["y"], then_branch=body, else_branch=body)], w=kernel),
        model([node("ConstantOfShape", ["n"], ["z"]), node("Shape", ["x"], ["q"]),
               node("Slice", ["q", "a", "b"], ["k"]), node("Concat", ["k", "k"], ["e"], axis=0),
               node("Expand", ["z", "e"], ["g"]), node("Pad", ["x", "pads"], ["r"]),
               node("Resize", ["r", "", "scales"], ["h"]), node("Add", ["h", "one"], ["y"])],
              n=np.array([1, 1, 1, 1]), a=np.array([0]), b=np.array([2]),
              pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]), one=np.array([1], np.float32),
              scales=np.array([1, 1, 2, 2], np.float32)),
        model([node("Reshape", ["x", "to"], ["s"]),
               node("LSTM", ["s", "W", "R"], ["", "y"], hidden_size=2)], **lstm),
        model([node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
               node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
               node("QuickGelu", ["d"], ["g"], domain="com.microsoft", alpha=1.0),
               node("Gather", ["g", "i"], ["h"], axis=2), node("Tile", ["h", "r"], ["y"])],
              scale=np.array(0.1, np.float32), zero=np.array(3, np.uint8), i=np.array([0, 5]),
              r=np.array([1, 1, 2, 2])),
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[1,4] x) => (float[1,4] y)'
            " { c = Identity(x) s = SequenceConstruct(c, x) y = ConcatFromSequence<axis=0>(s) }"
        ).SerializeToString(),
    ]  # fmt: skip


def mutate(rng: random.Random, models: list[bytes]) -> bytes:
    """One of the models, changed in one to three places."""
    data = rng.choice(models)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(rng, data, models)
    return data


def _flip(rng: random.Random, data: bytes, models: list[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _cut(rng: random.Random, data: bytes, models: list[bytes]) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randint(1, 16) :]


def _splice(rng: random.Random, data: bytes, models: list[bytes]) -> bytes:
    other = rng.choice(models)
    start, place = rng.randrange(len(other)), rng.randrange(len(data) + 1)
    return data[:place] + other[start : start + rng.randint(1, 64)] + data[place:]


def _change_field(rng: random.Random, data: bytes, models: list[bytes]) -> bytes:
    """Another value in one field, in a message that stays well-formed."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # an earlier mutation broke it
        return data
    places = list(_fields(model))
    if places:
        message, field = rng.choice(places)
        _set(rng, message, field, places)
    return bytes(model.SerializeToString())


_MUTATIONS: tuple[Callable[[random.Random, bytes, list[bytes]], bytes], ...] = (
    _flip, _cut, _splice, *[_change_field] * 7,
)  # fmt: skip


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    for field, value in message.ListFields():
        yield message, field
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                yield from _fields(inner)


def _set(rng: random.Random, message: Any, field: Any, places: list[tuple[Any, Any]]) -> None:
    if field.type == field.TYPE_MESSAGE or rng.random() < 0.2:
        message.ClearField(field.name)
        return
    if field.type == field.TYPE_STRING:
        texts = [m for m, f in places if f.type == f.TYPE_STRING and not f.is_repeated]
        other = rng.choice(texts) if texts else message
        value: Any = next((v for f, v in other.ListFields() if isinstance(v, str)), "")
    elif field.type == field.TYPE_BYTES:
        value = rng.randbytes(rng.choice((0, 1, 4, 108, 432)))
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        value = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    else:
        value = rng.choice(_NUMBERS)
    try:
        if field.is_repeated:
            getattr(message, field.name)[rng.randrange(len(getattr(message, field.name)))] = value
        else:
            setattr(message, field.name, value)
    except (TypeError, ValueError):  # a number that the field cannot hold
        message.ClearField(field.name)


class Reader:
    """Reads models in a process apart, a new one after each that does not come back."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def read(self, data: bytes) -> Outcome:
        """What becomes of one model."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()
        start_s = time.monotonic()
        try:
            self._pipe.send_bytes(data)
            if self._pipe.poll(MOST_S):
                kind, detail, peak = self._pipe.recv()
                if peak > MOST_BYTES:
                    self.close()
                    kind = "swollen"
                return Outcome(kind, detail, time.monotonic() - start_s, peak)
            kind, detail = "hangs", f"for {MOST_S:g} s"
        except (EOFError, BrokenPipeError):
            self._process.join()
            kind, detail = "crash", f"exit code {self._process.exitcode}"
        self.close()
        return Outcome(kind, detail, time.monotonic() - start_s, 0)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _serve(pipe: Connection) -> None:
    from partita.errors import ModelError
    from partita.graph import load_graph

    pipe.send("ready")
    while True:
        data = pipe.recv_bytes()
        try:
            graph = load_graph(data)
            graph.cuts()
            kind, detail = "read", f"{len(graph.layers)} layers"
        except ModelError as error:
            kind, detail = "refused", error.message
            if "\n" in detail or not detail.strip():
                kind = "unclear"
        except BaseException:
            kind, detail = "bare", traceback.format_exc(limit=-4)
        pipe.send((kind, detail, peak_bytes()))


def peak_bytes() -> int:
    """The most memory this process ever held; ``ru_maxrss`` begins with what its parent held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def fuzz(count: int, seed: int) -> Iterator[tuple[bytes, Outcome]]:
    """Yield mutated models with what became of each."""
    rng, models, reader = random.Random(seed), base_models(), Reader()
    try:
        for _ in range(count):
            data = mutate(rng, models)
            yield data, reader.read(data)
    finally:
        reader.close()


def main() -> int:
    """Fuzz, and say what was seen."""
    parser = make_parser(__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for models that are faults")
    flags = parser.parse_args()
    kinds: Counter[str] = Counter()
    slowest_s, peak_bytes = 0.0, 0
    for number, (data, outcome) in enumerate(fuzz(flags.count, flags.seed)):
        kinds[outcome.kind] += 1
        slowest_s, peak_bytes = max(slowest_s, outcome.seconds), max(peak_bytes, outcome.peak_bytes)
        if outcome.is_fault:
            say(f"{number}: {outcome.kind}: {outcome.detail}")
            if flags.keep:
                flags.keep.mkdir(parents=True, exist_ok=True)
                (flags.keep / f"{number}.onnx").write_bytes(data)
    faults = sum(many for kind, many in kinds.items() if kind not in ("read", "refused"))
    rows = [
        Row(
            f"{flags.count} files, neither read nor refused",
            "",
            faults,
            None,
            None,
            "0",
            not faults,
        ),
        at_most("slowest", "s", slowest_s, MOST_S),
        at_most("largest process", "GB", peak_bytes / 1e9, MOST_BYTES / 1e9),
    ]
    return report(rows, as_json=flags.json, notes=kinds)


if __name__ == "__main__":
    sys.exit(main())
