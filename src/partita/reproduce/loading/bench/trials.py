"""Trials of variants of a model, each in a new process, in turns."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from partita.errors import RunError
from partita.files import pack_arrays
from partita.loading.cut.page_cache import forget, read_once_s
from partita.regions import Array
from partita.reproduce.loading.bench.trial import ENGINES
from partita.reproduce.loading.bench.variants import ModelVariant

Advance = Callable[[str], None]
_SCRIPT = Path(__file__).with_name("trial.py")
#: Seconds that one trial may take; VGG-19's plain file, the slowest here, answers in four. A round
#: number far above: only what hangs is ended.
_MOST_S = 300.0
#: Seconds that later answers take at least: small models' need a dozen to be at speed. Not tuned.
_LATER_S = 0.25
#: How far a first answer may be from the whole model's, as a fraction of its largest value: what
#: float32 rounds otherwise where layers are fused otherwise.
TOLERANCE = 1e-5


class LoadTrial(msgspec.Struct, frozen=True):
    """What one process took; or, of several, the medians.

    Attributes:
        start_s: From before the process was started to the call that loads the model.
        loaded_s: From that call until all is loaded; mapped weights may not be read yet.
        answered_s: From that call to the first answer.
        steady_s: Median of later runs, when all is loaded and verified.
        peak_bytes: The most memory that was resident, mapped files included.
        parts_s: Of each child's load, where there are children.
    """

    start_s: float
    loaded_s: float
    answered_s: float
    steady_s: float
    peak_bytes: float
    parts_s: tuple[float, ...] = ()

    @property
    def speedup_bound(self) -> float:
        """All children's loads over the longest: loading at the same time gains no more."""
        return sum(self.parts_s) / max(self.parts_s, default=1.0)

    @property
    def from_start_s(self) -> float:
        """Seconds from process start to the first answer."""
        return self.start_s + self.answered_s


def answer(variant: ModelVariant, feeds: Mapping[str, Array]) -> list[Array]:
    """What a model answers, loaded in this process."""
    order = {
        "path": str(variant.path),
        "settings": dict(variant.settings),
        "threads": variant.threads,
    }
    return list(ENGINES[variant.engine](order)().run(None, dict(feeds)))


def run_trial(
    variant: ModelVariant,
    feeds: Mapping[str, Array],
    expected: Sequence[Array],
    *,
    cold: bool = False,
    runs: int = 9,
) -> LoadTrial:
    """What a new process takes from its start to its first answer, and later.

    Args:
        variant: The model; its files are settled.
        feeds: One request.
        expected: What the whole model answers.
        cold: Whether the model's files are dropped from the page cache before; else they are read.
            What else a process reads, such as libraries, stays in it.
        runs: Later runs, at least 1; small models have more, as many as take a quarter of a second:
            interpreters take a dozen until they are at speed.

    Raises:
        RunError: The process failed, or its answer is another one than the whole model's.
    """
    name = f"Trial '{variant.name}' of {variant.path} ({'cold' if cold else 'warm'})"
    forget(variant.files) if cold else read_once_s(variant.files)
    with tempfile.TemporaryDirectory(prefix="partita-trial-") as folder:
        given, answer = Path(folder) / "feeds.npz", Path(folder) / "answer.npz"
        given.write_bytes(pack_arrays(feeds))
        order = {
            "engine": variant.engine,
            "path": str(variant.path),
            "settings": dict(variant.settings),
            "threads": variant.threads,
            "feeds": str(given),
            "answer": str(answer),
            "runs": runs,
            "later_s": _LATER_S,
        }
        trial = _spawn(name, order)
        with np.load(answer) as file:
            answers = [file[key] for key in file.files]
    _compare(name, answers, expected)
    return trial


def _spawn(name: str, order: Mapping[str, Any]) -> LoadTrial:
    told = {**order, "began_s": time.monotonic()}
    command = [sys.executable, "-P", str(_SCRIPT), json.dumps(told)]
    # Modules lie compiled beside their sources, as in an installed package.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    # NumPy's threads spin for a while once it is imported, which would hold up most the
    # variant whose other imports take the shortest.
    env["OPENBLAS_NUM_THREADS"] = "1"
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_MOST_S, env=env)
    except subprocess.TimeoutExpired:
        raise RunError(f"{name} took longer than {_MOST_S:.0f} s; it was ended.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing was said"]
        raise RunError(f"{name} failed with exit code {done.returncode}: {said[-1]}.")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=LoadTrial)


def _compare(name: str, answers: Sequence[Array], expected: Sequence[Array]) -> None:
    for ours, whole in zip(answers, expected, strict=True):
        most = float(np.abs(whole).max())
        apart = float(np.abs(ours - whole).max()) if ours.shape == whole.shape else np.inf
        if not apart <= TOLERANCE * most:
            raise RunError(
                f"{name} answers otherwise than the whole model: {apart:.2g} apart, allowed:"
                f" {TOLERANCE * most:.2g}."
            )


def run_trials(
    variants: Mapping[str, ModelVariant],
    feeds: Mapping[str, Array],
    expected: Sequence[Array],
    *,
    trials: int,
    cold: bool = False,
    advance: Advance | None = None,
) -> dict[str, list[LoadTrial]]:
    """The trials of each variant; they take turns, so that all see the same machine.

    The order within a turn is drawn from a seed, so that none always follows the same other one.

    Args:
        variants: By the name they get here.
        trials: Of each variant.
        advance: Called with each variant's name before its trial.

    Raises:
        RunError: As :func:`run_trial`.
    """
    names = list(variants)
    results: dict[str, list[LoadTrial]] = {name: [] for name in names}
    for turn in range(trials):
        for name in random.Random(turn).sample(names, len(names)):
            if advance is not None:
                advance(name)
            results[name].append(run_trial(variants[name], feeds, expected, cold=cold))
    return results


def middle(trials: Sequence[LoadTrial]) -> LoadTrial:
    """The medians of several trials of one variant."""
    keys = LoadTrial.__struct_fields__[:-1]
    parts = zip(*(trial.parts_s for trial in trials), strict=True)
    medians: dict[str, Any] = {
        key: statistics.median(getattr(trial, key) for trial in trials) for key in keys
    }
    return LoadTrial(**medians, parts_s=tuple(map(statistics.median, parts)))
