"""Searching: repeatable, resumable, and away from the test pictures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from partita.errors import InputError
from partita.separable.architecture import Architecture
from partita.separable.controller import Space
from partita.separable.data import Pictures
from partita.separable.options import SearchOptions, TrainOptions
from partita.separable.samplers import EvolutionSampler
from partita.separable.search import Aim, Search, front
from partita.separable.traffic import count_traffic
from tests.separable.drawn import draw_dataset

ARCHITECTURE = Architecture.parse("4x2d-11", groups=4, classes=3)
OPTIONS = SearchOptions(rounds=2, steps=2, samples=3, judged=8)
TRAIN = TrainOptions(batch=24)
PRICES = (0.0, 0.5)


def _search(sampler: str = "controller", *, sparse: bool = True, seed: int = 5) -> Search:
    space = Space(ARCHITECTURE, staleness=1, sparse=sparse)
    return Search(space, draw_dataset(), OPTIONS, TRAIN, Aim(sampler, PRICES), seed=seed)


@pytest.mark.parametrize("sampler", ["controller", "random", "evolution"])
def test_a_search_that_goes_on_is_the_one_that_never_ended(sampler: str, tmp_path: Path) -> None:
    """Bit for bit, for each sampler."""
    whole, first = _search(sampler), _search(sampler)
    losses = [whole.run_round() for _ in range(2)]
    first.run_round()
    first.save(tmp_path / "state.safetensors")
    second = _search(sampler)
    second.restore(tmp_path / "state.safetensors")
    assert second.best == first.best
    assert [second.run_round()] == losses[1:]
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, second.net.state_dict()[name]), name
    assert second.losses == losses
    assert second.found == whole.found
    assert second.choose() == whole.choose()


def test_test_pictures_are_not_looked_at() -> None:
    """Other ones change nothing."""
    space = Space(ARCHITECTURE)
    data = draw_dataset()
    other = Pictures(np.zeros_like(data.test.images), np.zeros_like(data.test.labels))
    one = Search(space, data, OPTIONS, TRAIN)
    two = Search(space, replace(data, test=other), OPTIONS, TRAIN)
    assert one.run_round() == two.run_round()
    assert one.best == two.best
    assert one.choose() == two.choose()


def test_validation_pictures_are_not_trained_on() -> None:
    """None is in both parts."""
    search = _search()
    trained = {image.tobytes() for image in search.part.train.images}
    assert not trained & {image.tobytes() for image in search.part.judged.images}
    assert len(search.part.train) + len(search.part.judged) == 48


def test_the_front_has_no_candidate_that_another_beats() -> None:
    """More traffic only for more accuracy."""
    search = _search("random")
    search.run_round()
    traffic = [one.traffic for one in search.best]
    accuracy = [one.accuracy for one in search.best]
    assert traffic == sorted(traffic)
    assert accuracy == sorted(set(accuracy))
    assert front(search.best) == search.best


def test_the_controller_learns_what_is_rewarded() -> None:
    """A choice that pays becomes frequent."""
    space = Space(ARCHITECTURE)
    search = Search(space, draw_dataset(), OPTIONS, TRAIN)
    draw = torch.Generator().manual_seed(0)
    sampler = search.sampler

    def rate() -> float:
        with torch.no_grad():
            found = sampler.propose([0.0] * 200, draw)
        return float(np.mean([choice == 7 for one in found for choice in one.choices]))

    before = rate()
    for _ in range(150):
        proposals = sampler.propose([0.0] * 16, draw)
        sampler.learn(proposals, [float(np.mean(np.equal(p.choices, 7))) for p in proposals])
    assert before < 0.15
    assert rate() > 0.5


def test_evolution_finds_what_is_rewarded() -> None:
    """The best of all policies."""
    search = _search("evolution", sparse=False)
    draw = torch.Generator().manual_seed(0)
    best = 0.0
    for _ in range(300):
        proposals = search.sampler.propose([0.0] * 4, draw)
        worth = [float(np.mean(np.equal(p.choices, 7))) for p in proposals]
        search.sampler.learn(proposals, worth)
        best = max(best, *worth)
    assert best == 1.0


def test_evolution_keeps_prices_apart() -> None:
    """What is dear for one price is not a parent for it because another price likes it."""
    space = Space(ARCHITECTURE)
    sampler = EvolutionSampler(space)
    draw = torch.Generator().manual_seed(0)
    for _ in range(400):
        proposals = sampler.propose([0.0, 1.0], draw)
        sevens = [float(np.mean(np.equal(one.choices, 7))) for one in proposals]
        # At price 1 sevens are bad, and all rewards are below those at price 0.
        rewards = [
            seven if one.price == 0.0 else -1 - seven
            for one, seven in zip(proposals, sevens, strict=True)
        ]
        sampler.learn(proposals, rewards)
    last = [sampler.propose([0.0, 1.0], draw) for _ in range(50)]
    liked, disliked = (
        float(np.mean([np.equal(pair[side].choices, 7) for pair in last])) for side in (0, 1)
    )
    assert liked > 0.4
    assert disliked < 0.1


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (lambda: _search("random"), "its aim.sampler is controller, not random"),
        (lambda: _search(seed=6), "its seed is 5, not 6"),
        (lambda: _search(sparse=False), "its sparse is True, not False"),
        (
            lambda: Search(Space(replace(ARCHITECTURE, width=4)), draw_dataset(), OPTIONS, TRAIN),
            "is of 4x2d-11 in 4 groups with 3 classes, not of 4x4d-11",
        ),
    ],
)
def test_a_checkpoint_of_another_search_is_named(
    other: object, problem: str, tmp_path: Path
) -> None:
    """What differs is said."""
    _search().save(tmp_path / "state.safetensors")
    with pytest.raises(InputError, match=problem):
        other().restore(tmp_path / "state.safetensors")  # type: ignore[operator]


def test_a_dearer_price_chooses_no_more_traffic() -> None:
    """Each price has the best policy of its own; none is named twice, and no price left out."""
    space = Space(ARCHITECTURE, sparse=True)
    aim = Aim("random", (0.0, 0.3, 100.0, 200.0))
    search = Search(space, draw_dataset(), replace(OPTIONS, samples=12), TRAIN, aim)
    search.run_round()
    chosen = search.choose()
    assert tuple(price for one in chosen for price in one.prices) == aim.prices
    assert chosen[-1].prices[-2:] == (100.0, 200.0)
    traffic = [count_traffic(ARCHITECTURE, one.policy).byte_share for one in chosen]
    assert traffic == sorted(traffic, reverse=True)
    assert len({one.policy for one in chosen}) == len(chosen)
    assert traffic[-1] == min(one.traffic for one in search.found)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    """A file that was cut off, and one with a weight that changed."""
    path = tmp_path / "state.safetensors"
    _search().save(path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(InputError, match="Checkpoint"):
        _search().restore(path)
    path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    with pytest.raises(InputError, match="is damaged: its tensors are not those"):
        _search().restore(path)


def test_larger_spaces_are_factored() -> None:
    """Eight groups: seven choices instead of 40,320 ways."""
    space = Space(Architecture.parse("8x2d-11", groups=8, classes=3))
    assert space.heads == (8, 7, 6, 5, 4, 3, 2)
    policy = space.policy([7, 6, 5, 4, 3, 2, 1] * 3)
    assert policy.exchanges(space.architecture)[0].targets == (7, 6, 5, 4, 3, 2, 1, 0)
