"""Networks that are trained apart: what travels to another process, and what comes back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from partita.errors import RunError
from partita.separable import trials as module
from partita.separable.architecture import Architecture
from partita.separable.options import TrainOptions
from partita.separable.policy import Decision, Policy
from partita.separable.training import divide, start_net
from partita.separable.trials import Trial, train_on_ray
from tests.separable.drawn import draw_dataset

NETWORK = Architecture.parse("4x2d-11", groups=4, classes=3)
OPTIONS = TrainOptions(images=27, tested=6, epochs=2, batch=9, augment=False)


class _Ref:
    """An answer that is there at once, through the bytes that travel."""

    def __init__(self, call: Any, args: Sequence[Any]) -> None:
        self.call, self.args = call, pickle.loads(pickle.dumps(args))


class _RayError(Exception):
    """The library's kind of failure."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Ray:
    """What of the library is asked for; the last that is asked is done first."""

    exceptions = SimpleNamespace(RayError=_RayError)

    def __init__(self) -> None:
        self.cancelled = 0

    def remote(self, call: Any) -> Any:
        made = SimpleNamespace(remote=lambda *args: _Ref(call, args))
        return SimpleNamespace(options=lambda **_: made)

    def wait(self, refs: list[_Ref]) -> tuple[list[_Ref], list[_Ref]]:
        return refs[-1:], refs[:-1]

    def get(self, ref: _Ref) -> Any:
        try:
            return pickle.loads(pickle.dumps(ref.call(*ref.args)))
        except Exception as error:
            raise _RayError(error) from error

    def cancel(self, ref: _Ref, *, force: bool) -> None:
        self.cancelled += 1


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Ray]:
    """A stand-in for the library; threads are as before afterwards."""
    stand_in, threads = _Ray(), torch.get_num_threads()

    @contextmanager
    def connect() -> Iterator[_Ray]:
        yield stand_in

    monkeypatch.setattr(module, "connect_to_ray", connect)
    yield stand_in
    torch.set_num_threads(threads)


def _trials() -> list[Trial]:
    torch.set_num_threads(1)
    part = divide(draw_dataset(30, 6), OPTIONS, 0)
    net = start_net(NETWORK, part.train, seed=0)
    policies = [Policy((Decision(n),) * 3, staleness=1) for n in (0, 9)]
    return [Trial(net, policy, part, 0, 0.0, (0.1 * n,)) for n, policy in enumerate(policies)]


def test_elsewhere_is_as_here(ray: _Ray) -> None:
    """Bit for bit, in order, though the last is done first; epochs are told."""
    trials, told = _trials(), list[tuple[int, int]]()
    before = {name: tensor.clone() for name, tensor in trials[0].net.state_dict().items()}
    networks = train_on_ray(trials, None, lambda number, losses: told.append((number, len(losses))))
    assert told == [(1, 2), (0, 2)]
    for trial, network in zip(trials, networks, strict=True):
        fitting = trial.start()
        fitting.finish(None, lambda epoch, loss: None)
        here = trial.end(fitting)
        assert (network.policy, network.facts) == (trial.policy, here.facts)
        for name, tensor in here.net.state_dict().items():
            assert torch.equal(tensor, network.net.state_dict()[name])
    for name, tensor in trials[0].net.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_what_fails_there_is_told_here(ray: _Ray) -> None:
    """A loss that is no number is this error, a node's failure one line; the others are ended."""
    trials = _trials()
    wild = copy.deepcopy(trials[1].net)
    for weights in wild.parameters():
        weights.data.fill_(torch.nan)
    with pytest.raises(RunError, match="loss"):
        train_on_ray([trials[0], replace(trials[1], net=wild)], 1, lambda *_: None)
    assert ray.cancelled == 2
    broken = replace(trials[1], policy="none")  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"Training failed on Ray: .*str"):
        train_on_ray([broken], 1, lambda *_: None)
