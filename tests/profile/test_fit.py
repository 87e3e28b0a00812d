"""What a fragment costs beyond its layers, from made-up measurements."""

from __future__ import annotations

import pytest

from partita.profile.fit import fit_runs
from partita.profile.options import Alone, MeasureState, Wall


def test_layers_alone_tell_runs_and_bytes_apart() -> None:
    """A fixed cost and seconds per byte read and written are found again."""
    alone = [
        Alone(2e-5 + 1e-10 * read + 3e-10 * write + layer_s, layer_s, read, write, False)
        for read, write, layer_s in ((1000, 9000, 1e-5), (400_000, 10_000, 5e-5), (9000, 7e5, 3e-4))
    ]
    runs = fit_runs(MeasureState("key", alone=alone), 0.0)
    found = (runs.overhead_s, runs.read_s_per_byte, runs.write_s_per_byte)
    assert found == pytest.approx((2e-5, 1e-10, 3e-10), rel=1e-3)


def test_without_layers_alone_fragments_tell_what_a_run_costs() -> None:
    """A network of which no layer can be measured alone still has a cost per run."""
    walls = [Wall(1e-4 + 3e-5, 1e-4, 2), Wall(2e-4 + 3e-5, 2e-4, 4), Wall(5e-4, 6e-4, 3)]
    runs = fit_runs(MeasureState("key", walls=walls), 0.0)
    assert runs.overhead_s == pytest.approx(3e-5)
    assert (runs.read_s_per_byte, runs.write_s_per_byte) == (0.0, 0.0)
