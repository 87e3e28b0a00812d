"""Measuring a small network on this machine."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from partita.errors import ClusterError, ModelError
from partita.graph import Graph, load_graph
from partita.profile import (
    MeasureOptions,
    dump_profile,
    load_profile,
    measure_profile,
    save_profile,
)
from partita.profile.measure import Quiet
from partita.profile.options import MeasureState
from partita.profile.trace import FragmentRun
from tests.cost.fakes import conv_graph, straight_profile
from tests.models import make_model

QUICK = MeasureOptions(repeats=3, rounds=1, budget_s=0.05)


def small_graph(channels: int = 8) -> Graph:
    """Return conv, relu, pool, conv, flatten, dense."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    pads: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", **pads),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], name="second", **pads),
        helper.make_node("Flatten", ["d"], ["e"], name="flat"),
        helper.make_node("Gemm", ["e", "w3"], ["y"], name="dense"),
    ]
    constants = {
        "w1": draw(channels, 3, 3, 3),
        "w2": draw(channels, channels, 3, 3),
        "w3": draw(channels * 8 * 8, 10),
    }
    return load_graph(make_model(nodes, {"x": (1, 3, 16, 16)}, ["y"], constants))


def test_every_layer_has_samples_at_several_rows() -> None:
    """Layers with rows are measured at one row, at all rows and between; others once."""
    graph = small_graph()
    profile = measure_profile(graph, QUICK)
    assert list(profile.layers) == [layer.name for layer in graph.layers]
    first = profile.layers["first"]
    rows = [sample.rows for sample in first.samples]
    assert first.rows == 16
    assert rows == sorted(set(rows))
    assert len(rows) >= 4
    assert rows[-1] == 16
    assert [sample.rows for sample in profile.layers["dense"].samples] == [1]
    for layer in profile.layers.values():
        assert all(sample.seconds >= 0 and 1 <= sample.count <= 3 for sample in layer.samples)
    assert profile.model_hash == graph.hash
    assert set(profile.wires) >= {"raw", "uint8"}


def test_first_layers_of_a_group_are_measured_at_few_rows() -> None:
    """Whatever the halos of those behind them, which few rows of a plan for many devices lack."""
    nodes = [
        helper.make_node("Conv", [f"x{n}", "w"], [f"x{n + 1}"], name=f"conv{n}", pads=[2, 2, 2, 2])
        for n in range(4)
    ]
    weights = {"w": np.ones((4, 4, 5, 5), np.float32)}
    graph = load_graph(make_model(nodes, {"x0": (1, 4, 16, 8)}, ["x4"], weights))
    profile = measure_profile(graph, QUICK)
    assert {name: layer.samples[0].rows for name, layer in profile.layers.items()} == {
        "conv0": 2,
        "conv1": 2,
        "conv2": 2,
        "conv3": 1,
    }


def test_all_rows_measures_each_number_of_rows() -> None:
    """The papers' granularity has one sample per number of rows, layer by layer."""
    graph = small_graph()
    options = MeasureOptions(repeats=1, rounds=1, budget_s=0.01, rows="all")
    profile = measure_profile(graph, options)
    assert [sample.rows for sample in profile.layers["first"].samples] == list(range(1, 17))
    assert [sample.rows for sample in profile.layers["second"].samples] == list(range(1, 9))


def test_interrupted_measurement_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What was measured before an interruption is kept, and not measured again."""
    graph = small_graph()
    unfinished = tmp_path / "p.unfinished"
    options = MeasureOptions(repeats=3, rounds=1, budget_s=0.05, unfinished=unfinished)
    seen: list[tuple[int, int]] = []

    def stop_at_second(done: int, total: int, label: str) -> None:
        seen.append((done, total))
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_profile(graph, options, stop_at_second)
    assert unfinished.exists()
    kept = msgspec.json.decode(unfinished.read_bytes(), type=MeasureState)
    profile = measure_profile(graph, options)
    assert seen == [(0, 2), (1, 2)]
    assert not unfinished.exists()
    assert list(kept.layers) == ["first", "pool", "second"]
    for name, layer in kept.layers.items():
        # What weights cost in a request is added when all is measured.
        more = [
            now.seconds - before.seconds
            for now, before in zip(profile.layers[name].samples, layer.samples, strict=True)
        ]
        assert more == pytest.approx([more[0]] * len(more), abs=1e-12)
        assert 0 <= more[0] < 1e-3


def test_unfinished_measurement_of_another_model_is_ignored(tmp_path: Path) -> None:
    """A file left by another model never gets into a profile."""
    unfinished = tmp_path / "p.unfinished"
    options = MeasureOptions(repeats=1, rounds=1, budget_s=0.01, unfinished=unfinished)

    def stop(done: int, total: int, label: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_profile(small_graph(8), options, stop)
    starts: list[int] = []
    profile = measure_profile(small_graph(16), options, lambda done, *_: starts.append(done))
    assert profile.model_hash == small_graph(16).hash
    unfinished.write_text("{")
    with pytest.raises(ClusterError, match="Delete it to start again"):
        measure_profile(small_graph(16), options)


def test_outputs_without_a_shape_are_said_before_anything_is_measured() -> None:
    """The line is that of planning: which output, and what to do."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=1),
    ]
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {})
    with pytest.raises(ModelError, match=r"Output 'y' .* depends on the data"):
        measure_profile(load_graph(model.SerializeToString()))


def test_missing_provider_is_an_error() -> None:
    """A provider that this machine lacks is refused, not silently replaced by the CPU."""
    with pytest.raises(ClusterError, match="not available here"):
        measure_profile(small_graph(), MeasureOptions(provider="NoSuchExecutionProvider"))


def test_profile_file_round_trip(tmp_path: Path) -> None:
    """A saved profile is read back equal, and nothing else is left in the folder."""
    profile = straight_profile(conv_graph())
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"copy_s_per_byte": 0.0', '"copy_s_per_byte": -1'),
        ('"overhead_s": 0.0', '"overhead_s": 1e300'),
        ('"factor": 1.0', '"factor": -1'),
        ('"message_s": 0.0', '"message_s": -0.1'),
    ],
)
def test_figures_that_cannot_be_measured_are_refused(old: str, new: str) -> None:
    """A time below nothing, or of years, would be planned with."""
    text = dump_profile(straight_profile(conv_graph())).decode()
    assert old in text
    with pytest.raises(ClusterError, match="Expected `float`"):
        load_profile(text.replace(old, new).encode())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{", "is not a profile"),
        (b'{"schema": 99}', "key 'schema': got 99"),
        (b'{"stages": []}', "is not a profile: it has no key 'schema'"),
        (b'{"schema": 1, "device": 5}', "is not a profile: .*device"),
    ],
)
def test_bad_profile_files_are_named(content: bytes, expected: str, tmp_path: Path) -> None:
    """Damaged files, other versions and wrong types are one-line errors."""
    with pytest.raises(ClusterError, match=expected):
        load_profile(content)
    with pytest.raises(ClusterError, match="cannot be read"):
        load_profile(tmp_path / "none.json")


def test_a_disturbance_counts_for_the_layer_that_it_met() -> None:
    """Of runs that were all disturbed, each in another layer, every layer has its own time."""

    def run(*layers: float) -> FragmentRun:
        return FragmentRun(defaultdict(float, enumerate(layers)), enter=[(8, 0.5)])

    runs = [run(3.0, 2.0), run(1.0, 6.0)]
    quiet = Quiet.of(runs, [3.5, 3.5])
    assert [quiet.typical_s([one.layers[k] for one in runs]) for k in (0, 1)] == [1.0, 2.0]
    # One that was interrupted beside its nodes is as good as any, and makes no other shorter.
    quiet = Quiet.of([run(1.0, 2.0)] * 2 + [run(3.0, 9.0)], [3.6, 3.6, 3.7])
    assert quiet.typical_s([1.0, 1.0]) == 1.0
    # Disturbed in every run: what all took together bounds the sum.
    quiet = Quiet.of([run(3.0, 6.0)] * 2, [3.5] * 2)
    assert quiet.typical_s([3.0]) + quiet.typical_s([6.0]) + quiet.typical_s([0.5]) == (
        pytest.approx(3.5)
    )
