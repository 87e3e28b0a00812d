"""A worker as the machine that a model is profiled on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.null_engine import NullEngine
from tests.memory_lab import MemoryLab, memory_lab
from tests.planners.fakes import make_chain
from tests.worker.tiny import tiny_chain

import partita as pt
from partita.cluster import Device
from partita.engine.timing import FragmentTimes, MachineTimes, NodeTime, Timings, WireTimes
from partita.errors import RunError
from partita.leader import deploy
from partita.leader.bench import WorkerBench, slow_facts, slow_timings
from partita.leader.worker_group import WorkerGroup
from partita.profile import MeasureOptions
from partita.worker import measurer
from partita.worker.messages import Measure

QUICK = MeasureOptions(device="box", repeats=2, rounds=1, budget_s=0.01)


@pytest.fixture
def lab() -> Iterator[MemoryLab]:
    """One worker, three times slower than this machine."""
    with memory_lab([Device("box", slow_down=3.0)]) as lab:
        yield lab


def open_bench(lab: MemoryLab) -> WorkerBench:
    """The worker's bench."""
    group = WorkerGroup(lab.endpoint, ["box"])
    return WorkerBench(group, group.greet()["box"])


def test_a_worker_measures_what_this_machine_would(lab: MemoryLab) -> None:
    """The same layers and extents, the same engine; the worker keeps nothing pinned."""
    graph = pt.load_graph(make_chain(4, height=8, channels=8).to_model())
    bench = open_bench(lab)
    there = pt.measure_profile(graph, QUICK, bench=bench)
    bench.close()
    here = pt.measure_profile(graph, QUICK)
    assert (there.engine, there.machine, there.threads) == (here.engine, here.machine, 1)
    assert there.model_hash == graph.hash
    for name, layer in there.layers.items():
        rows = [sample.rows for sample in layer.samples]
        assert rows == [sample.rows for sample in here.layers[name].samples]
        assert all(sample.seconds > 0 for sample in layer.samples)
    assert set(there.wires) == set(here.wires)
    with pytest.raises(RunError, match="Nothing is measured"):
        bench._group.ask("box", "measured", Measure(bench._epoch), Measure)


def test_memory_is_given_back_after_each_order(
    lab: MemoryLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board would else run out of it: the C library keeps what threads have freed."""
    given_back: list[None] = []
    monkeypatch.setattr(measurer, "give_back", lambda: given_back.append(None))
    bench = open_bench(lab)  # the first order asks for facts
    bench.close()
    assert given_back == [None]


def test_an_emulated_device_is_as_much_slower_as_it_says() -> None:
    """Every time is multiplied but those of the reference, which say how fast the machine is."""
    node = NodeTime("n", "Conv", 2.0, 16, (1,))
    timings = Timings((FragmentTimes(1.0, (2.0,), (0.5,), ((node,),)),), (7.0,))
    (slow,) = slow_timings(timings, 3.0).fragments
    assert (slow.load_s, slow.walls, slow.used) == (3.0, (6.0,), (1.5,))
    assert slow.runs[0][0].seconds == 6.0
    assert slow_timings(timings, 3.0).paces == (7.0,)
    facts = MachineTimes("m", "e", 7.0, 1.0, {"raw": WireTimes(((4, 1.0),), ((4, 2.0),))})
    slowed = slow_facts(facts, 3.0)
    assert (slowed.reference_s, slowed.copy_s_per_byte) == (7.0, 3.0)
    assert slowed.wires["raw"] == WireTimes(((4, 3.0),), ((4, 6.0),))


def test_a_worker_that_runs_a_plan_is_not_profiled() -> None:
    """Its times would say what the plan leaves; the message names the worker."""
    tiny = tiny_chain()
    names = [part.device for part in tiny.program.devices]
    with (
        memory_lab([Device(name) for name in names]) as lab,
        deploy(tiny, lab.endpoint),
    ):
        group = WorkerGroup(lab.endpoint, names)
        with pytest.raises(RunError, match=f"'{names[0]}' runs a plan"):
            WorkerBench(group, group.greet()[names[0]])


def test_an_engine_without_times_is_refused() -> None:
    """Only ONNX Runtime can be profiled."""
    refused = pytest.raises(RunError, match="its engine is no ONNX Runtime")
    with memory_lab([Device("box")], engine=NullEngine()) as lab, refused:
        open_bench(lab)
