"""What a fragment costs beyond its layers, from made-up measurements."""

from __future__ import annotations

import pytest

from partita.profile.borders import CrossedBytes
from partita.profile.data import LayerProfile, Sample
from partita.profile.fit import fit_runs
from partita.profile.options import Alone, Border, MeasureState, Wall


def test_layers_alone_tell_runs_and_bytes_apart() -> None:
    """A fixed cost and seconds per byte read and written are found again."""
    fitted = fit_runs(MeasureState("key", alone=draw_alone()), 0.0)
    runs = fitted.runs
    found = (runs.overhead_s, runs.read_s_per_byte, runs.write_s_per_byte)
    assert found == pytest.approx((2e-5, 1e-10, 3e-10), rel=1e-3)
    assert fitted.weight_s_per_byte == pytest.approx(2e-11, rel=1e-3)


def test_what_layers_cost_alone_counts_their_factor() -> None:
    """Where layers take less than the engine's profiler says, borders are what is beyond that."""
    walls = [Wall(0.9 * layer_s + 2e-5, layer_s, 5) for layer_s in (1e-3, 2e-3, 4e-3)]
    state = MeasureState("key", alone=draw_alone(factor=0.95), walls=walls)
    runs = fit_runs(state, 0.0).runs
    again = fit_runs(MeasureState("key", alone=draw_alone(factor=runs.factor), walls=walls), 0.0)
    assert runs.factor == pytest.approx(0.9, abs=0.02)
    assert again.runs.read_s_per_byte == pytest.approx(1e-10, rel=0.05)
    assert again.runs.write_s_per_byte == pytest.approx(3e-10, rel=0.05)


@pytest.mark.parametrize(("whole_s", "factor"), [(6.3e-3, 1.05), (0.0, 0.9), (1.0, 1.25)])
def test_the_whole_network_tells_what_layers_take_in_a_request(
    whole_s: float, factor: float
) -> None:
    """Groups of layers are quicker when run again and again; a disturbed run is not believed."""
    layers = {
        name: LayerProfile("Conv", 8, False, (Sample(1, 1e-3, 9, 0.0), Sample(8, 3e-3, 9, 0.0)))
        for name in "ab"
    }
    walls = [Wall(0.9 * 6e-3 + 2e-5, 6e-3, 2)]
    extra_s = 2e-5 + 2e-11 * 4_000_000 if whole_s else 0.0
    state = MeasureState("key", layers, walls=walls, whole_s=whole_s + extra_s)
    state.alone = draw_alone(factor=factor)
    assert fit_runs(state, 0.0, 4_000_000).runs.factor == pytest.approx(factor, rel=0.01)


def test_what_is_converted_inside_the_network_is_not_its_layers() -> None:
    """Conversions count at their rates and passes as layers do; the rest is the factor's."""
    sample = (Sample(8, 4e-3, 9, 0.0),)
    layers = {name: LayerProfile("Conv", 8, True, sample) for name in "ab"}
    crossed = CrossedBytes(enter=1_000_000, leave=3_000_000, passes=2_000_000)
    state = MeasureState("key", layers, alone=draw_alone(factor=0.8))
    state.enter, state.leave = [Border(10**5, 2e-5)], [Border(10**5, 3e-5)]
    passes_s = 3 * 1e-10 * crossed.passes
    state.whole_s = 2e-5 + 2e-4 + 9e-4 + 0.8 * (8e-3 + passes_s)
    runs = fit_runs(state, 1e-10, crossed=crossed).runs
    assert runs.factor == pytest.approx(0.8, rel=0.01)


def test_the_sum_of_all_fragments_is_right() -> None:
    """Fragments that no line fits are not priced too low together."""
    alone = [Alone(t, 1e-5, n, n, False) for n, t in ((1000, 3e-5), (2e5, 5e-5), (4e5, 1.2e-4))]
    runs = fit_runs(MeasureState("key", alone=alone), 0.0).runs
    rate = runs.read_s_per_byte + runs.write_s_per_byte
    priced = sum(1e-5 + runs.overhead_s + rate * part.read_bytes for part in alone)
    assert priced == pytest.approx(sum(part.seconds for part in alone), rel=1e-6)


def draw_alone(factor: float = 1.0) -> list[Alone]:
    """Layers that cost what the fit must find: per run, byte read, byte written and of weights."""
    drawn = (
        (1000, 9000, 1e-5, 0),
        (400_000, 10_000, 5e-5, 100_000),
        (9000, 700_000, 3e-4, 2_000_000),
        (60_000, 60_000, 2e-5, 900_000),
    )
    return [
        Alone(
            2e-5 + 1e-10 * read + 3e-10 * write + 2e-11 * weights + factor * layer_s,
            layer_s,
            read,
            write,
            False,
            weights,
        )
        for read, write, layer_s, weights in drawn
    ]


def test_without_layers_alone_fragments_tell_what_a_run_costs() -> None:
    """A network of which no layer can be measured alone still has a cost per run."""
    walls = [Wall(1e-4 + 3e-5, 1e-4, 2), Wall(2e-4 + 3e-5, 2e-4, 4), Wall(5e-4, 6e-4, 3)]
    runs = fit_runs(MeasureState("key", walls=walls), 0.0).runs
    assert runs.overhead_s == pytest.approx(3e-5)
    assert (runs.read_s_per_byte, runs.write_s_per_byte) == (0.0, 0.0)
