"""Epochs that are over: what is kept of them."""

from __future__ import annotations

import gc
from concurrent.futures import Future

from tests.leader.fakes import Deployed, FakeLab
from tests.worker.tiny import tiny_chain

from partita.leader.past_epochs import PastEpochs
from partita.leader.patience import Patience

#: More than are kept for reports.
MANY = 100


def count_futures() -> int:
    """Those that something still holds. Some objects warn where they are asked for their class."""
    gc.collect()
    return sum(issubclass(type(each), Future) for each in gc.get_objects())


def test_a_service_that_changes_plans_for_months_keeps_the_last_epochs() -> None:
    """Their logs, as many as reports have; of what ended them nothing is left."""
    lab, program = FakeLab("d0"), tiny_chain(1, 1).program
    epochs = [Deployed(lab, program, number) for number in range(MANY)]
    past, before = PastEpochs(lab.group, trace=False), count_futures()
    for epoch in epochs:
        past.add(epoch)  # type: ignore[arg-type]
    past.close(Patience())  # all are over
    assert count_futures() - before <= 1
    assert [epoch.retired for epoch in epochs] == [1] * MANY
    assert [log.epoch for log in past.logs()] == list(range(MANY))[-64:]
