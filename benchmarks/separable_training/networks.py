"""One network of the study, trained to the end, or one search."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import mean

import torch
from safetensors.torch import load_file, save_file

from partita.reproduce.separable.results import Curve, Trained
from partita.reproduce.separable.training import CASES
from partita.separable.architecture import Architecture
from partita.separable.controller import Space
from partita.separable.data import Dataset, read_dataset
from partita.separable.options import SearchOptions, TrainOptions
from partita.separable.policy import Policy, rotating, silent
from partita.separable.samplers import RandomSampler
from partita.separable.search import Aim, Search
from partita.separable.traffic import count_traffic
from partita.separable.training import Trainer, divide, judge, start_net

GROUPS, STALENESS = 4, 2
#: The target: percent of the ring, as the paper counts.
MOST_SHARE = 0.1444
#: Policies of as many bytes: within this share of them.
_AS_MANY = 0.02
#: Of a search, beside its rounds; and policies of its end that all validation pictures judge.
_STEPS, _SAMPLES, _JUDGED, _FINAL = 40, 60, 200, 10
#: Policies that are drawn until there are enough of as many bytes.
_MOST_DRAWN = 20_000
#: What a job begins with when it is a search.
SEARCH = "search "
#: The network in one piece.
PLAIN = "plain"
#: The separable network whose groups send behind every block, and wait: as much as they can say.
SYNCHRONOUS = "synchronous"
CONTROLLER, CHANCE, TRAINED_CHANCE = CASES


@dataclass(frozen=True)
class Job:
    """One network to train, or one search.

    Attributes:
        kind: plain, silent, separable, synchronous, or a case of figure 4, or found and random,
            whose policy a search found.
        tested: Test pictures, of the first.
        folder: Of the pictures.
        weights: File of what a search has trained: written by the controller's, read by chance's.
        policy: That the network is trained under; of chance's search, one of as many bytes.
    """

    part: str
    kind: str
    seed: int
    network: str
    options: TrainOptions
    tested: int
    folder: Path
    weights: Path
    policy: str = ""

    @property
    def title(self) -> str:
        """What progress shows."""
        return f"{self.part}, seed {self.seed}: {self.kind}"


def do(job: Job) -> tuple[Trained, Curve | None]:
    """Train a network, or search; on one thread, so that processes do not hinder each other."""
    torch.set_num_threads(1)
    start_s = time.process_time()
    if job.kind.startswith(SEARCH):
        return _search(job, start_s)
    return _train(job, start_s), None


@lru_cache(maxsize=1)
def _read(folder: Path) -> Dataset:
    return read_dataset(folder)


def _train(job: Job, start_s: float) -> Trained:
    data = _read(job.folder)
    groups = 1 if job.kind == PLAIN else GROUPS
    architecture = Architecture.parse(job.network, groups=groups, classes=data.classes)
    policy = _policy(job, architecture)
    part = divide(data, job.options, job.seed)
    net = start_net(architecture, part.train, seed=job.seed)
    trainer = Trainer(net, part.train, part.options, seed=job.seed)
    for _ in range(job.options.epochs):
        trainer.train_epoch(lambda draw: (policy,))
    return _trained(
        job, policy, judge(net, policy, data.test.take(slice(0, job.tested))), start_s, architecture
    )


def _policy(job: Job, architecture: Architecture) -> Policy:
    if job.policy:
        return _parse(job.policy)
    staleness = {"separable": STALENESS, SYNCHRONOUS: 1}.get(job.kind)
    return silent(architecture) if staleness is None else rotating(architecture, staleness)


def _trained(
    job: Job, policy: Policy, accuracy: float, start_s: float, architecture: Architecture
) -> Trained:
    traffic = count_traffic(architecture, policy)
    return Trained(
        job.part,
        job.kind,
        job.seed,
        accuracy,
        traffic.share,
        traffic.byte_share,
        time.process_time() - start_s,
        str(policy),
    )


def _search(job: Job, start_s: float) -> tuple[Trained, Curve]:
    """Search by the controller or by chance; the accuracy is of validation pictures."""
    data, case = _read(job.folder), job.kind.removeprefix(SEARCH)
    architecture = Architecture.parse(job.network, groups=GROUPS, classes=data.classes)
    space = Space(architecture, STALENESS, sparse=True, halves=True)
    is_led = case == CONTROLLER
    options = SearchOptions(
        rounds=job.options.epochs,
        steps=_STEPS if is_led else 0,
        samples=_SAMPLES,
        judged=_JUDGED,
    )
    sampler = "controller" if is_led else "random"
    search = Search(space, data, options, job.options, Aim(sampler), seed=job.seed)
    if case == TRAINED_CHANCE:
        search.net.load_state_dict(load_file(job.weights))
    curve = Curve(case, job.seed, [], [])
    for _ in range(options.rounds):
        curve.losses.append(search.run_round())
        curve.accuracies.append(mean(one.accuracy for one in search.found))
    if is_led:
        save_file(search.net.state_dict(), job.weights)
    policy, accuracy = _choose(search, _allowed(search, job))
    return _trained(job, policy, accuracy, start_s, architecture), curve


def _allowed(search: Search, job: Job) -> list[Policy]:
    """Policies among which the best is looked for: of the controller those that send little enough.

    Of chance, those that send as many bytes as what the controller found.
    """
    space = search.space
    architecture = space.architecture
    if job.policy:
        target = count_traffic(architecture, _parse(job.policy)).payload_bytes
        draw = torch.Generator().manual_seed(job.seed)
        sampler = RandomSampler(space)
        drawn = (space.policy(sampler.propose([0.0], draw)[0].choices) for _ in range(_MOST_DRAWN))
        near = (
            policy
            for policy in drawn
            if abs(count_traffic(architecture, policy).payload_bytes / target - 1) <= _AS_MANY
        )
        return list(islice(near, _SAMPLES))
    found = [one.policy for one in search.found]
    cheap = [one for one in found if count_traffic(architecture, one).share <= MOST_SHARE]
    return cheap or [min(found, key=lambda one: count_traffic(architecture, one).share)]


def _choose(search: Search, policies: list[Policy]) -> tuple[Policy, float]:
    """The best policy, first by some of the validation pictures, then by all."""
    judged = search.part.judged
    some = judged.take(slice(0, _JUDGED))
    mixed = search.part.options.mixed
    ranked = sorted(policies, key=lambda one: -judge(search.net, one, some, mixed=mixed))[:_FINAL]
    scores = {one: judge(search.net, one, judged) for one in ranked}
    best = max(scores, key=lambda one: scores[one])
    return best, scores[best]


def _parse(text: str) -> Policy:
    return Policy.parse(text, STALENESS, halves=True)
