"""What networks that were trained here are worth: written by a benchmark, read by tables."""

from __future__ import annotations

from pathlib import Path

import msgspec

from partita.errors import InputError
from partita.reproduce.bench import Bench

#: In the folder where results are kept.
RESULTS = "separable-training.json"
#: What writes it.
COMMAND = "python -m benchmarks.separable_training study"


class Trained(msgspec.Struct, frozen=True):
    """One network, trained to the end.

    Attributes:
        part: Of the study: networks of one part and seed are compared with each other.
        kind: What it is, as plain, silent or found.
        seed: Of its weights, and of the order of pictures.
        accuracy: On the test pictures, from 0 to 1.
        share: Of the ring's maps that it sends, as the paper counts.
        byte_share: Of the ring's bytes.
        seconds: That training took.
    """

    part: str
    kind: str
    seed: int
    accuracy: float
    share: float = 0.0
    byte_share: float = 0.0
    seconds: float = 0.0
    policy: str = ""


class Curve(msgspec.Struct, frozen=True):
    """One search, round by round.

    Attributes:
        case: controller, random, or random from the weights of the controller's.
        losses: Mean over the training pictures.
        accuracies: Mean over the round's samples, on validation pictures.
    """

    case: str
    seed: int
    losses: list[float]
    accuracies: list[float]


class TrainingResults(msgspec.Struct):
    """What a study found so far.

    Attributes:
        scales: Of each part: network, pictures, epochs, in words.
    """

    scales: dict[str, str] = {}
    runs: list[Trained] = []
    curves: list[Curve] = []

    def find(self, part: str, kind: str) -> dict[int, Trained]:
        """The runs of one kind, by seed."""
        return {run.seed: run for run in self.runs if (run.part, run.kind) == (part, kind)}


def load_results(path: Path) -> TrainingResults:
    """The results in a file; none where there is no file.

    Raises:
        InputError: It is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrainingResults)
    except FileNotFoundError:
        return TrainingResults()
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"Results '{path}' cannot be read: {error}.", subject=str(path)) from error


def read_results(bench: Bench) -> TrainingResults:
    """What was trained on this machine, from the folder where results are kept."""
    folder = bench.cache.folder
    return TrainingResults() if folder is None else load_results(folder / RESULTS)
