"""How networks are trained and searched, and named settings of all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from partita.errors import InputError

#: Where nothing else is said: beyond are mistakes.
_MOST = 10**9


def _require(group: str, name: str, value: float, least: float, most: float = _MOST) -> None:
    if not least <= value <= most:  # NaN is in no range
        raise InputError(
            f"Setting '{group}.{name}' is {value:g}, must be {least:g} to {most:g}.",
            subject=f"{group}.{name}",
        )


@dataclass(frozen=True)
class TrainOptions:
    """How a network is trained.

    Attributes:
        images: Training pictures that are used, drawn by the seed; 0 for all. At least 3: one is
            held out, and normalisations learn from two.
        held_out: Share of them that is not trained on, but chosen by.
        tested: Test pictures that networks are judged by in the end; 0 for all.
        epochs: Times that all pictures are seen; in a search its rounds are.
        batch: Pictures of a step, from 2; a last one that would be alone is in the step before.
        rate: Highest learning rate; it falls to nothing along half a cosine.
        warmup: Share of the steps in which it first rises to that: messages add up, so that a fresh
            network's logits are large, and full steps would throw it far off.
        shifts: Whether pictures are moved a little.
        flips: Whether pictures are mirrored; grey ones never are.
        augment: Whether pictures are changed as AutoAugment found for CIFAR; grey ones never are.
        mixed: Whether steps are computed in 16-bit floats (bfloat16) where these suffice; weights
            stay floats of 32 bits. Faster by half and more on processors that have them.
    """

    images: int = 0
    held_out: float = 0.1
    tested: int = 0
    epochs: int = 200
    batch: int = 128
    rate: float = 0.1
    warmup: float = 0.05
    shifts: bool = True
    flips: bool = True
    augment: bool = True
    mixed: bool = False

    def __post_init__(self) -> None:
        _require("train", "images", self.images, 3 if self.images else 0)
        _require("train", "held_out", self.held_out, 0.001, 0.9)
        _require("train", "tested", self.tested, 0)
        _require("train", "epochs", self.epochs, 1)
        _require("train", "batch", self.batch, 2)
        _require("train", "rate", self.rate, 0, 1000)
        _require("train", "warmup", self.warmup, 0, 1)


@dataclass(frozen=True)
class SearchOptions:
    """How long to search.

    Attributes:
        rounds: Of training, learning and choosing.
        steps: In which the sampler learns, of a round; each judges a policy for every price.
        samples: Policies of a round among which the best is looked for.
        models: Policies whose gradients are averaged for a batch.
        judged: Pictures of the validation set by which one policy is judged.
        tuning_epochs: Of each chosen network under its policy, at ``tuning_rate``.
    """

    rounds: int = 60
    steps: int = 500
    samples: int = 100
    models: int = 1
    judged: int = 128
    tuning_epochs: int = 45
    tuning_rate: float = 1e-4

    def __post_init__(self) -> None:
        for name in ("rounds", "samples", "models", "judged"):
            _require("search", name, getattr(self, name), 1)
        for name in ("steps", "tuning_epochs"):
            _require("search", name, getattr(self, name), 0)
        _require("search", "tuning_rate", self.tuning_rate, 0, 1000)


@dataclass(frozen=True)
class Setting:
    """A network and how it is found.

    Attributes:
        groups: Of the separable form.
        staleness: Blocks of a window.
        prices: What all traffic of the ring costs a policy's reward, in accuracy; policies are
            sought for all of these, so that the front of accuracy and traffic is one search.
    """

    depth: int
    cardinality: int
    width: int
    groups: int
    staleness: int
    prices: tuple[float, ...] = (0.0,)
    search: SearchOptions = field(default_factory=SearchOptions)
    train: TrainOptions = field(default_factory=TrainOptions)


#: The first is the paper's recipe. ``small`` takes minutes on two cores; ``tiny`` takes seconds, to
#: show that all works rather than that networks learn.
SETTINGS = {
    "paper": Setting(56, 8, 16, 4, 2),
    "small": Setting(
        20,
        4,
        16,
        4,
        2,
        prices=(0.0, 0.1),
        search=SearchOptions(
            rounds=4, steps=8, samples=16, judged=50, tuning_epochs=1, tuning_rate=0.01
        ),
        train=TrainOptions(images=2000, tested=2000, epochs=5, batch=32, rate=0.05, augment=False),
    ),
    "tiny": Setting(
        11,
        4,
        4,
        4,
        1,
        prices=(0.0, 0.1),
        search=SearchOptions(
            rounds=2, steps=4, samples=8, judged=50, tuning_epochs=1, tuning_rate=0.01
        ),
        train=TrainOptions(images=500, tested=500, epochs=3, batch=25, rate=0.05, augment=False),
    ),
}


def find_setting(name: str) -> Setting:
    """The setting of a name.

    Raises:
        InputError: There is none.
    """
    if name not in SETTINGS:
        raise InputError(f"--setting '{name}': allowed are {', '.join(SETTINGS)}.", subject=name)
    return SETTINGS[name]
