"""Training: to the end, from the middle, and where it goes wrong."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from partita.errors import InputError, ModelError, RunError
from partita.separable.architecture import Architecture
from partita.separable.fitting import Fitting
from partita.separable.module import Losses, SeparableNet
from partita.separable.network import Network, load_network, save_network, start_from
from partita.separable.options import TrainOptions
from partita.separable.policy import Policy
from partita.separable.training import divide, judge, judge_losses, start_net
from tests.separable.drawn import draw_dataset

ARCHITECTURE = Architecture.parse("4x2d-11", groups=4, classes=3)
POLICY = Policy.parse("9,16:4,7")
OPTIONS = TrainOptions(epochs=2, batch=24, rate=0.05)


def _fitting(
    options: TrainOptions = OPTIONS, *, policy: Policy = POLICY, drop_messages: float = 0.3
) -> Fitting:
    part = divide(draw_dataset(), options, 3)
    net = start_net(ARCHITECTURE, part.train, seed=3)
    return Fitting(net, policy, part, seed=3, drop_messages=drop_messages)


def _ignore(epoch: int, loss: float) -> None:
    """Nothing is told."""


@pytest.mark.parametrize("mixed", [False, True])
def test_a_training_that_goes_on_is_the_one_that_never_ended(tmp_path: Path, mixed: bool) -> None:
    """Bit for bit, with changed pictures and dropped messages, in floats of 32 bits and of 16."""
    whole, first, second = (_fitting(replace(OPTIONS, mixed=mixed)) for _ in range(3))
    whole.finish(tmp_path / "whole.safetensors", _ignore)
    first.trainer.train_epoch(lambda draw: (POLICY,))
    first.save(tmp_path / "state.safetensors")
    second.restore(tmp_path / "state.safetensors")
    second.finish(tmp_path / "state.safetensors", _ignore)
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, second.net.state_dict()[name]), name


def _rates(options: TrainOptions) -> list[float]:
    """The learning rate of every step, of one for each epoch."""
    trainer, seen = _fitting(options).trainer, list[float]()
    for _ in range(options.epochs):
        trainer.train_epoch(lambda draw: (POLICY,))
        rate, dense = (group["lr"] for group in trainer.optimiser.param_groups)
        assert dense == pytest.approx(rate / 10)
        seen.append(rate)
    return seen


def test_the_rate_rises_and_falls_along_half_a_cosine() -> None:
    """Over all epochs, of one step each here; without warming up it only falls."""
    cold = _rates(replace(OPTIONS, epochs=4, batch=100, warmup=0.0))
    assert cold == pytest.approx(
        [0.05, 0.05 * (1 + 0.5**0.5) / 2, 0.025, 0.05 * (1 - 0.5**0.5) / 2]
    )
    warm = _rates(replace(OPTIONS, epochs=4, batch=100, warmup=0.5))
    assert warm == pytest.approx([cold[0] / 2, *cold[1:]])


def test_a_last_picture_is_not_alone() -> None:
    """A normalisation over one place and one picture would have nothing to learn from."""
    trainer, steps = _fitting(replace(OPTIONS, images=47, batch=7)).trainer, []
    trainer.train_epoch(lambda draw: (POLICY,), lambda done, total, what: steps.append(total))
    assert steps == [6] * 6  # of 42 pictures; and of 43:
    trainer = _fitting(replace(OPTIONS, images=48, batch=7)).trainer
    steps.clear()
    seen: list[int] = []
    stem = trainer.net.get_submodule("stem.conv")
    stem.register_forward_pre_hook(lambda layer, given: seen.append(len(given[0])))
    trainer.train_epoch(lambda draw: (POLICY,))
    assert seen == [7] * 5 + [8]


@pytest.mark.parametrize("held_out", [0.001, 0.5, 0.9])
def test_two_pictures_are_left_to_train_on(held_out: float) -> None:
    """However much is to be held out, and one at least is."""
    part = divide(draw_dataset(), replace(OPTIONS, images=3, held_out=held_out), 0)
    assert (len(part.train), len(part.judged)) == (2, 1)


def test_mixed_steps_are_those_of_floats_to_their_rounding() -> None:
    """Weights stay floats of 32 bits, and go nearly the same way."""
    fittings = [_fitting(replace(OPTIONS, mixed=mixed, epochs=1)) for mixed in (False, True)]
    start = _fitting().net.get_parameter("fc.weight").detach()
    losses = [one.trainer.train_epoch(lambda draw: (POLICY,)) for one in fittings]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    plain, mixed = (one.net.get_parameter("fc.weight").detach() for one in fittings)
    assert mixed.dtype == torch.float32
    assert (plain - mixed).norm() < 0.2 * (plain - start).norm()


def test_a_loss_that_is_no_number_keeps_the_epoch_before(tmp_path: Path) -> None:
    """It stops, says where, and the file is as good as it was."""
    path = tmp_path / "state.safetensors"
    _fitting().finish(path, _ignore)
    before = path.read_bytes()
    wild = _fitting(replace(OPTIONS, rate=1e3, epochs=9, augment=False))
    with pytest.raises(RunError, match=r"in epoch \d of 9 at rate 1000. Lower the rate"):
        wild.finish(path, _ignore)
    if wild.trainer.epoch == 0:
        assert path.read_bytes() == before
    state = load_network(path).net.state_dict()
    assert all(bool(value.isfinite().all()) for value in state.values())


def test_weights_that_are_no_numbers_after_the_last_step_stop_it() -> None:
    """No loss has seen them."""
    trainer = _fitting().trainer
    weight = trainer.net.get_parameter("fc.bias")

    def spoil(done: int, total: int, what: str) -> None:
        if done == total - 1:
            weight.register_hook(lambda gradient: gradient * float("inf"))

    with pytest.raises(RunError, match="weights are no longer finite in epoch 1 of 2"):
        trainer.train_epoch(lambda draw: (POLICY,), spoil)
    assert trainer.epoch == 0


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (lambda: _fitting(policy=Policy.parse("9,16,7")), "its policy.decisions is 9,16:4,7, not"),
        (lambda: _fitting(replace(OPTIONS, rate=0.1)), "its train.rate is 0.05, not 0.1"),
        (lambda: _fitting(drop_messages=0.0), "its drop_messages is 0.3, not 0.0"),
    ],
)
def test_a_state_of_another_training_is_named(other: object, problem: str, tmp_path: Path) -> None:
    """What differs is said."""
    _fitting().save(tmp_path / "state.safetensors")
    with pytest.raises(InputError, match=problem):
        other().restore(tmp_path / "state.safetensors")  # type: ignore[operator]


def test_a_state_needs_as_many_threads(tmp_path: Path) -> None:
    """Sums are in another order with others."""
    _fitting().save(tmp_path / "state.safetensors")
    torch.set_num_threads(2)
    with pytest.raises(InputError, match="its threads is 1, not 2"):
        _fitting().restore(tmp_path / "state.safetensors")


def test_a_network_comes_back_from_its_file(tmp_path: Path) -> None:
    """Weights, policy and facts; and it may begin another training."""
    net = SeparableNet(ARCHITECTURE, seed=4)
    policy = replace(POLICY, halves=True).without(2)
    save_network(tmp_path / "n.safetensors", Network(net, policy, {"test_accuracy": 0.5}))
    found = load_network(tmp_path / "n.safetensors")
    assert found.policy == policy
    assert found.facts == {"test_accuracy": 0.5}
    images = torch.rand(2, 3, 32, 32)
    other = SeparableNet(ARCHITECTURE, seed=5)
    start_from(other, tmp_path / "n.safetensors", ARCHITECTURE)
    with torch.no_grad():
        assert torch.equal(found.net(images, policy), net.eval()(images, policy))
        assert torch.equal(other.eval()(images, policy), net(images, policy))


def test_grey_pictures_are_neither_mirrored_nor_recoloured() -> None:
    """A mirrored digit is none."""
    options = divide(replace(draw_dataset(), is_grey=True), OPTIONS, 0).options
    assert not options.flips
    assert not options.augment
    assert divide(draw_dataset(), OPTIONS, 0).options == OPTIONS


def test_some_test_pictures_are_from_all_over() -> None:
    """One class lies after the other where folders are read."""
    data = draw_dataset(20, 9)
    part = divide(data, replace(OPTIONS, tested=3), 0)
    assert part.test.labels.tolist() == data.test.labels[[0, 4, 8]].tolist()
    assert divide(data, replace(OPTIONS, tested=99), 0).test.labels.tolist() == (
        data.test.labels.tolist()
    )


def test_dropped_messages_do_not_arrive() -> None:
    """All of them dropped: nothing is sent; a share of them: pictures differ from each other."""
    net = SeparableNet(ARCHITECTURE, seed=1).eval()
    images = torch.rand(1, 3, 32, 32).expand(16, -1, -1, -1)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        none = net(images, POLICY, Losses(1.0, draw))
        some = net(images, POLICY, Losses(0.5, draw))
        assert torch.allclose(none, net(images))
    assert len(some.round(decimals=4).unique(dim=0)) > 2


def test_a_lost_group_sends_nothing() -> None:
    """Its messages are the ones that are missing; group 0 answers and cannot be lost."""
    (first, *_) = POLICY.without(2).exchanges(ARCHITECTURE)
    assert set(first.messages()) == {
        one for one in POLICY.exchanges(ARCHITECTURE)[0].messages() if one[0] != 2
    }
    with pytest.raises(ModelError, match="group 0 answers"):
        POLICY.without(0)


def test_each_group_that_sends_is_judged_without() -> None:
    """By the policy without it; group 0, which answers, and those that send nothing are not."""
    data = draw_dataset(8, 4)
    net = SeparableNet(Architecture.parse("4x2d-11", groups=4, classes=3))
    policy = Policy.parse("6,6,6")  # 0 to 1 to 0; groups 2 and 3 are silent
    assert judge_losses(net, policy, data.test) == {1: judge(net, policy.without(1), data.test)}
