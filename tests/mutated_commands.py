"""Drawn and damaged words of the command line: fields, flags and plan files, good and bad ones."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import onnx

from partita.cli import main
from partita.cluster import load_cluster
from partita.errors import PartitaError
from partita.plan import load_plan
from tests.cli.conftest import tiny_model
from tests.mutations import Outcome, judge, mutate_tree

#: What may stand for a quantity: in the unit that is wanted, at the ends, and what is none.
_GOOD = ("1", "2", "64", "500")
_NUMBERS = ("1", "64", "0.5", "1e3", "0", "-1", "1e-300", "1e300", "1e400", "nan", "inf", "9" * 400,
            "", "٣", "1_0", "0x1", " 5 ", "+5", ".5", "5.", "1e", "x", "5\n", "\0")  # fmt: skip
_UNITS = {
    "memory": ("B", "kB", "MB", "GB", "MiB"),
    "port": ("bit/s", "Mbit/s", "MB/s"),
    "swap": ("B/s", "MB/s", "Mbit/s"),
}
_ODD: tuple[object, ...] = (0, 5, -1, 1.5, True, [], ["1 MB"], {}, "", "1 MB 1 MB", "MB")
_KINDS = ("raspberry-pi-3", "raspberry-pi-4", "jetson-nano")
_PLANNERS = ("single", "cut", "branches", "collaborative", "equal_rows", "random", "best")
_OBJECTIVES = ("latency", "throughput", "memory", "energy")
#: Values of flags, ``#`` a number; those in the first place are good ones.
_FLAGS = {
    "--price": ("raspberry-pi-4=#", "raspberry-pi-3=#", "=#", "moon=#"),
    "--in-flight": ("#", "1", "8", "1000", "1001"),
    "--budget": ("0.05", "1e-300", "0", "-1", "nan", "x", "", "1e"),  # a large one is used up
    "--seed": ("#", "3"),
    "--energy-limit": ("a=#", "x=#"),
    "--keep-on": ("a=x", "b=x", "a=y", "a=q", "x=a", "=", "a"),
    "--kernels": ("float", "integer", "", "int8"),
    "--wire": ("x=uint8", "a=uint4", "y=float16", "q=uint8", "x=", "x=raw", "x=int3"),
    "--compress": ("uint8", "none", "float16", "zip", ""),
    "--axis": ("rows", "tiles", "output_channels", "replica", "none", ""),
    "--set": ("collaborative.replicas=no", "cut.x=1", "random.split=#", "best.", "=", "x"),
}
_WISHES = ("#/s", "# ms", "40/s", "900/s", "5", "/s", "#/ms", "200ms", "3/s/s")
_OUTPUTS = (
    ".",
    "",
    "/",
    "..",
    "out.toml",
    "out",
    ".json",
    "c.toml",
    "c.json",
    "m.onnx",
    "m.onnx/a",
)


def try_commands(rng: Random, count: int, outcome: Outcome, folder: Path) -> None:
    """Commands that plan, and that read a plan file."""
    onnx.save(tiny_model(), folder / "m.onnx")
    with contextlib.chdir(folder):
        (folder / "good.toml").write_text(_cluster({}))
        words = ["plan", "m.onnx", "--cluster", "good.toml", "--planner", "cut"]
        _run([*words, "-o", "p.json"])
        plan = json.loads((folder / "p.json").read_text())
        for number in range(count):
            words = _draw_plan(rng, plan) if number % 3 == 2 else _draw_flags(rng)
            judge(outcome, partial(_ask, words), repr(words).encode())


def _cluster(fields: dict[str, object]) -> str:
    """A requester and two boards; the fields are the second board's."""
    lines = ['[cluster]\nname = "n"\nrequester = "a"']
    for name, kind in zip("abc", _KINDS, strict=True):
        lines.append(f'[[device]]\nname = "{name}"\nkind = "{kind}"')
        lines += [f"{key} = {_toml(value)}" for key, value in fields.items() if name == "b"]
    lines.append('[[link]]\nbetween = ["*", "*"]\nbandwidth = "200 Mbit/s"\nlatency = "1 ms"\n')
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{}"
    return json.dumps(value)


def _draw(rng: Random, texts: Sequence[str]) -> str:
    """One of the texts, a good one more often, with a number in it."""
    text = texts[0] if rng.random() < 0.6 else rng.choice(texts)
    number = rng.choice(_GOOD) if rng.random() < 0.8 else rng.choice(_NUMBERS)
    return text.replace("#", number)


def _draw_flags(rng: Random) -> list[str]:
    """A cluster file with up to three fields and ``partita plan`` with up to three flags of one."""
    fields: dict[str, object] = {}
    for key in rng.sample(sorted(_UNITS), rng.randint(0, 3)):
        text = f"{_draw(rng, ('#',))} {rng.choice(_UNITS[key])}"
        fields[key] = rng.choice(_ODD) if rng.random() < 0.2 else text
    Path("c.toml").write_text(_cluster(fields), encoding="utf-8")
    words = ["plan", "m.onnx", "--cluster", "c.toml", "--budget", "0.05"]
    if rng.random() < 0.4:  # dividing a small layer among 64 boards takes half a minute
        words += ["--planner", rng.choice(_PLANNERS[:4]), "--want", _draw(rng, _WISHES)]
    elif rng.random() < 0.5:
        words += ["--planner", rng.choice(_PLANNERS), "--objective", rng.choice(_OBJECTIVES)]
    strangers = ("--keep-on", "--energy-limit") if "--want" in words else ("--price",)
    allowed = [flag for flag in _FLAGS if flag not in strangers or rng.random() < 0.1]
    for flag in rng.sample(allowed, rng.randint(0, 3)):
        words += [flag, _draw(rng, _FLAGS[flag])]
    output = "out.json" if rng.random() < 0.9 else rng.choice(_OUTPUTS)
    return [*words, *rng.choice(([], ["--swap"], ["--simple"])), "-o", output]


def _draw_plan(rng: Random, plan: dict[str, Any]) -> list[str]:
    """A plan file of replicas with shares and options, damaged, and a command that reads it."""
    layers = [name for stage in plan["stages"] for name in stage["layers"]]
    shards = [{"device": name} for name in "abc"]
    stage = {"name": "s", "layers": layers, "axis": "replica", "shards": shards}
    stage["shares"] = [rng.choice((1, 2, 7)) for _ in shards]
    asked: dict[str, Any] = {
        "devices": ["a", "b"],
        "energy_limits": {"a": 2.0},
        "method": {"random.split": "no"},
    }
    asked |= {"axes": ["rows"], "compress": "uint8", "wires": {"x": "uint8"}, "max_evaluations": 9}
    whole = plan | {"stages": [stage], "in_flight": rng.choice((1, 3, 12)), "options": asked}
    part = rng.choice((None, "options", "stages"))
    damaged = mutate_tree(whole if part is None else whole[part], rng)
    Path("q.json").write_text(json.dumps(damaged if part is None else whole | {part: damaged}))
    return rng.choice(("simulate q.json", "check q.json", "export q.json -o e")).split()


def _ask(words: list[str]) -> None:
    """Run a command: it does its work, or says in one line why not and leaves nothing behind.

    Raises:
        PartitaError: It refused; the error has the line.
    """
    before = {path: path.read_bytes() for path in Path().rglob("*")}
    try:
        _run(words)
    except PartitaError:
        left = set(Path().rglob("*")) - before.keys()
        assert not left, f"left {left}"
        raise
    else:
        if words[0] == "plan":
            _read(set(Path().rglob("*")) - before.keys(), Path(words[-1]))
    finally:
        assert all(path.read_bytes() == data for path, data in before.items())
        for path in sorted(set(Path().rglob("*")) - before.keys(), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def _read(written: set[Path], plan: Path) -> None:
    """Read what a planner wrote, a plan and maybe its cluster, as later commands do."""
    for path in written:
        try:
            load_plan(path) if path == plan else load_cluster(path)
        except PartitaError as error:
            raise AssertionError(f"wrote {path}: {error}") from error


def _run(words: list[str]) -> None:
    """Run a command; refusing is one line and a code that says so.

    Raises:
        PartitaError: It refused.
    """
    told = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        code = main(words)
    if code == 0:
        return
    lines = [line for line in told.getvalue().splitlines() if line.startswith("partita: ")]
    assert code in (2, 3, 4), f"code {code}: {told.getvalue()}"
    assert len(lines) == 1, told.getvalue()
    assert told.getvalue().splitlines()[-1] == lines[0], told.getvalue()
    assert "Unexpected failure" not in lines[0], lines[0]
    raise PartitaError(lines[0])
