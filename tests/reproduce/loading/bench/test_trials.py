"""Every variant of a model gives the whole model's answer, from a process of its own."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from partita.errors import BundleError, RunError
from partita.loading.cut.page_cache import forget, read_once_s, settle
from partita.reproduce.loading.bench import trial, variants
from partita.reproduce.loading.bench.chain import Chain
from partita.reproduce.loading.bench.trials import LoadTrial, middle, run_trial, run_trials
from partita.reproduce.loading.bench.variants import ModelVariant
from partita.zoo import build_model

MODEL = build_model("mobilenet_v1", size=32)
STARTS = ("stem", "block5", "block13.pointwise")
FEEDS = {"input": np.random.default_rng(1).standard_normal((1, 3, 32, 32), np.float32)}


def answer_whole() -> list[Any]:
    """Return what ONNX Runtime answers."""
    return list(ort.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelVariant]:
    """Return every variant of the model, PyTorch's where it is installed."""
    folder = tmp_path_factory.mktemp("variants")
    found = [one for write in variants.WRITERS.values() for one in write(MODEL, folder, 1)]
    found += variants.ship_bundle(MODEL, folder, 1, (10, 30), loaders=2)
    found += variants.ship_children(MODEL, folder, 1, STARTS)
    if ways_of_torch():
        found += variants.ship_torch(MODEL, folder, 1, STARTS)
    for one in found:
        settle(one.files)
    return {one.name: one for one in found}


def ways_of_torch() -> list[str]:
    """Return the variants that need PyTorch, and Safetensors, where they are installed."""
    if find_spec("torch") is None:
        return []
    found = ["torch_load", "torch_mmap", "torch_children", "torch_children_in_turn"]
    return [*found, "torch_safetensors"] if find_spec("safetensors") else found


VARIANTS = [
    *("plain", "ort_format", "external", "external_no_prepack", "optimised_prepack", "optimised"),
    "optimised_still",
    "optimised_brief",
    *("bundle_no_ahead", "bundle", "children", "children_in_turn", *ways_of_torch()),
]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_answers_as_the_whole(shipped: dict[str, ModelVariant], variant: str) -> None:
    """A trial compares the answers itself, and its times follow each other."""
    found = run_trial(shipped[variant], FEEDS, answer_whole(), runs=1, cold=variant == "bundle")
    assert 0 < found.start_s < found.from_start_s
    assert found.answered_s > 0
    assert found.loaded_s > 0
    assert found.peak_bytes > 10e6
    loads = {"children": 3, "bundle": 2, "torch": 1}
    assert len(found.parts_s) == next((loads[kind] for kind in loads if kind in variant), 0)


@pytest.mark.slow
def test_ways_take_turns(shipped: dict[str, ModelVariant]) -> None:
    """All have one trial in each round, in an order that changes from one to the next."""
    told: list[str] = []
    chosen = {variant: shipped[variant] for variant in ("plain", "optimised")}
    found = run_trials(chosen, FEEDS, answer_whole(), trials=4, advance=told.append)
    rounds = [told[place : place + 2] for place in range(0, 8, 2)]
    assert all(set(one) == set(chosen) for one in rounds)
    assert len({one[0] for one in rounds}) == 2
    assert {variant: len(one) for variant, one in found.items()} == {"plain": 4, "optimised": 4}


@pytest.mark.slow
def test_a_failing_trial_is_named(shipped: dict[str, ModelVariant]) -> None:
    """What the process said last is part of the message."""
    missing = replace(shipped["plain"], path=Path("none.onnx"))
    with pytest.raises(
        RunError, match=r"Trial 'plain' of none.onnx \(warm\) failed with exit code 1"
    ):
        run_trial(missing, FEEDS, answer_whole())


@pytest.mark.slow
def test_another_answer_is_refused(shipped: dict[str, ModelVariant]) -> None:
    """An answer that is a little off is an error."""
    (answer,) = answer_whole()
    with pytest.raises(RunError, match="answers otherwise than the whole model"):
        run_trial(shipped["plain"], FEEDS, [answer * 1.001], runs=1)


def test_a_trial_in_this_process(shipped: dict[str, ModelVariant], tmp_path: Path) -> None:
    """What a trial does needs no process of its own to be tried."""
    given, answer = tmp_path / "feeds.npz", tmp_path / "answer.npz"
    np.savez(given, allow_pickle=False, **FEEDS)
    order = {"engine": "bundle", "path": str(shipped["bundle"].path), "settings": {}, "threads": 1}
    found = trial.run(
        order
        | {"feeds": str(given), "answer": str(answer), "runs": 1, "later_s": 0.0, "began_s": 0.0}
    )
    assert set(found) == set(LoadTrial.__struct_fields__)
    with np.load(answer) as file:
        np.testing.assert_allclose(file["arr_0"], answer_whole()[0], rtol=1e-4, atol=1e-5)


def test_middle_is_the_median() -> None:
    """Each figure has its own."""
    trials = [LoadTrial(1, 2, 3, 4, 5), LoadTrial(3, 1, 2, 9, 9), LoadTrial(2, 3, 1, 5, 6)]
    assert middle(trials) == LoadTrial(2, 2, 2, 5, 6)
    halves = [LoadTrial(1, 1, 1, 1, 1, (2, 6)), LoadTrial(1, 1, 1, 1, 1, (4, 2))]
    assert middle(halves).parts_s == (3, 4)
    assert middle(halves).speedup_bound == 7 / 4


def test_a_fault_in_a_thread_is_raised() -> None:
    """The child that cannot be opened is an error of the chain, not one less of its sessions."""

    def open_one(path: Path) -> Any:
        if path.name == "b":
            raise ValueError(path.name)

    with pytest.raises(ValueError, match="b"):
        Chain([Path("a"), Path("b")], open_one)


def test_files_are_read_and_forgotten(tmp_path: Path) -> None:
    """Dropping a file from the page cache leaves it as it is."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    settle([path])
    forget([path])
    assert read_once_s([path]) > 0
    assert path.read_bytes() == b"x" * 5000


def test_unknown_layers_are_refused() -> None:
    """Children begin with layers that there are; a name counts up to a full stop."""
    assert variants.find_starts(MODEL, ["stem", "block1", "block2"]) == [0, 3, 9]
    with pytest.raises(BundleError, match="no layer 'block14'"):
        variants.find_starts(MODEL, ["block14"])
