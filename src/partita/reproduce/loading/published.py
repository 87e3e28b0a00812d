"""What the paper printed: "Reinforcement Learning Based Asymmetrical DNN Modularization for
Optimal Loading", Tables 1 to 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from partita.errors import InputError
from partita.reproduce.figure import Paper

PAPER = Paper("loading", ("models", "trials", "cold"))
#: Our names for the paper's six.
TITLES = {
    "lowlight_resnet": "Low-light ResNet",
    "mobilenet_v1": "MobileNet-V1",
    "inception_v3": "Inception-V3",
    "resnet152": "ResNet-152",
    "squeezenet": "SqueezeNet",
    "densenet201": "DenseNet-201",
}


@dataclass(frozen=True)
class Measured:
    """What the paper measured of a model: whole, and as children that load at the same time.

    Attributes:
        whole_s: An observation each.
        children_s: The same.
        count: Children.
    """

    whole_s: tuple[float, ...]
    children_s: tuple[float, ...]
    count: int

    @property
    def gains(self) -> tuple[float, ...]:
        """How many times faster the children are, by observation."""
        return tuple(a / b for a, b in zip(self.whole_s, self.children_s, strict=True))

    @property
    def gain(self) -> float:
        """Median of the gains."""
        return median(self.gains)

    @property
    def span(self) -> str:
        """The gains in words."""
        low, high = min(self.gains), max(self.gains)
        return f"{low:.2f}x" if low == high else f"{low:.2f} to {high:.2f}x"


#: Table 1: Arm-NN on a telephone.
TABLE_1 = {
    "lowlight_resnet": Measured((0.228,), (0.090,), 4),
    "mobilenet_v1": Measured((0.212,), (0.088,), 4),
    "inception_v3": Measured((0.960,), (0.430,), 4),
}
#: Table 2: where children begin, in the paper's words and as layers of the zoo's models. The paper
#: gives indices of PyTorch's modules: of torchvision's as they were at its time, Inception-V3
#: without modules for its pools (which favours the paper: its children are more alike then), and
#: SqueezeNet 1.0, whose classifier begins after the dropout. The two ranges of DenseNet-201 that
#: end with 8.48 and 10.32 end with the blocks' last layers, 8.47 and 10.31.
TABLE_2: dict[str, dict[str, str]] = {
    "inception_v3": {
        "0-9": "stem.1",
        "10-12": "mixed17.1",
        "13-15": "reduce8",
        "16-end": "mixed8.1",
    },
    "resnet152": {
        "0-3": "conv1",
        "4": "layer1",
        "5": "layer2",
        "6": "layer3",
        "7": "layer4",
        "8-end": "avgpool",
    },
    "squeezenet": {"0-5": "conv1", "6-9": "pool4", "10-13": "fire8", "14-end": "conv10"},
    "densenet201": {
        "0-4": "conv0",
        "5": "transition1",
        "6": "block2",
        "7": "transition2",
        "8.0-8.16": "block3",
        "8.17-8.32": "block3.18",
        "8.33-8.48": "block3.34",
        "9": "transition3",
        "10.0-10.15": "block4",
        "10.16-10.32": "block4.17",
        "11-end": "norm5",
    },
}
#: Table 3: PyTorch on a desktop computer with a GTX 1080 Ti.
TABLE_3 = {
    "inception_v3": Measured(
        (4.2253, 4.3935, 3.8204, 3.8085, 4.2440), (0.6328, 0.7718, 0.6736, 0.7080, 0.6690), 4
    ),
    "resnet152": Measured(
        (7.2572, 7.3213, 7.2389, 7.3375, 7.3037), (0.9990, 1.1890, 0.9436, 1.0145, 1.2538), 6
    ),
    "squeezenet": Measured(
        (0.3617, 0.3284, 0.3775, 0.3709, 0.3909), (0.2977, 0.2795, 0.3029, 0.2821, 0.2857), 4
    ),
    "densenet201": Measured(
        (2.1816, 2.2205, 2.5217, 2.6003, 2.7886), (0.7409, 0.6977, 0.5535, 0.7397, 0.7690), 11
    ),
}


def chosen_models(models: Sequence[str], table: Sequence[str]) -> list[str]:
    """Which of a table's models are asked for: all of them without names.

    Raises:
        InputError: The paper has no such model.
    """
    for model in models:
        if model not in TITLES:
            raise InputError(
                f"Model '{model}' is not one of the paper's; allowed: {', '.join(TITLES)}.",
                subject=model,
            )
    return [model for model in table if not models or model in models]
