"""Two leaders of one name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.worker.tiny import random_inputs, tiny_chain

from partita.cluster import Cluster, Device
from partita.errors import RunError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.lab import LabOptions, start_lab
from partita.leader import deploy

pytestmark = pytest.mark.slow


def test_a_second_leader_of_a_name_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    """The second hears whose name it has; with another name, or after the first, it may lead."""
    tiny = tiny_chain(2, 2)
    inputs = random_inputs(tiny.program, 3)
    options = LabOptions(store=tmp_path, shaped=False, name="both")
    with start_lab(Cluster.of([Device("d0"), Device("d1")]), options) as lab:
        addresses = tuple(lab.addresses.values())
        same = ZenohEndpoint(ZenohOptions("leader", "both", connect=addresses, lease_s=0.2))
        other = ZenohEndpoint(ZenohOptions("leader-2", "both", connect=addresses))
        try:
            with deploy(tiny, lab.endpoint) as session:
                before = session.run(inputs)
                with pytest.raises(RunError, match="'leader' is taken: 'd0' hears of another"):
                    deploy(tiny, same)
                with deploy(tiny, other) as beside:
                    again = beside.run(inputs)
                after = session.run(inputs)
            lab.endpoint.close()
            with deploy(tiny, same) as session:
                last = session.run(inputs)
        finally:
            same.close()
            other.close()
    for runs in (again, after, last):
        for first, second in zip(before, runs, strict=True):
            np.testing.assert_array_equal(first["t1"], second["t1"])
