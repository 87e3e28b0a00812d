"""``partita separable convert``: a network of somebody in groups, from which training goes on."""

import shlex
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from benchmarks.accuracy.export import export
from PIL import Image

from tests.cli.conftest import Ask
from tests.separable.drawn import draw_dataset
from tests.separable.others import torch_network


@pytest.fixture
def model(folder: Path) -> str:
    """Return a file of a network with four paths in each block."""
    onnx.save(export(torch_network(4), (1, 3, 32, 32)), folder / "own.onnx")
    return "own.onnx"


def test_a_network_is_converted_and_trained_on(model: str, folder: Path, ask: Ask) -> None:
    """All weights are kept; the graph answers; what is trained is the converted network."""
    done = ask(
        "separable", "convert", model, "--groups", "2", "--alpha", "2", "-o", "two", "--json"
    )
    assert done.code == 0, done.err
    reply = done.reply
    assert reply["parameters_kept"] == reply["parameters_given"] < reply["parameters"]
    assert max(reply["difference"], reply["difference_of_one_group"]) <= 1e-5
    assert (reply["stages"], reply["policy"]) == ([2, 2], "1,1")
    session = onnxruntime.InferenceSession(folder / reply["model"])
    image = np.zeros((1, 3, 32, 32), np.float32)
    assert session.run(None, {"input": image})[0].shape == (1, 5)
    _draw_pictures(folder / "pictures")
    trained = ask(
        *("separable", "train", "--data", "pictures", "--from", reply["network"], "-o", "run"),
        *("--policy", reply["network"], "--alpha", "2", "--setting", "tiny", "--threads", "1"),
        *("--set", "train.epochs=1", "--json"),
    )
    assert trained.code == 0, trained.err
    assert trained.reply["architecture"] == "'own' in 2 groups"
    assert trained.reply["parameters"] == reply["parameters"]


def test_the_command_that_is_printed_runs(model: str, folder: Path, ask: Ask) -> None:
    """With pictures and a folder put in, also where names have spaces."""
    done = ask("separable", "convert", model, "--groups", "2", "-o", "in two")
    (line,) = (text for text in done.out.splitlines() if text.startswith("To be trained: partita"))
    _draw_pictures(folder / "PICTURES")
    words = shlex.split(line)[4:]
    quick = ("--setting", "tiny", "--threads", "1", "--set", "train.epochs=1")
    trained = ask(*words, *quick)
    assert trained.code == 0, trained.err
    assert (folder / "DIR" / "network.safetensors").exists()


def _draw_pictures(folder: Path) -> None:
    drawn = draw_dataset(30, 6)
    for part, pictures in (("train", drawn.train), ("test", drawn.test)):
        for number, (image, label) in enumerate(zip(pictures.images, pictures.labels, strict=True)):
            place = folder / part / f"class{label}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(place / f"{number}.png")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--groups", "3"), "--groups: groups = 3: allowed for 'own' are 1, 2, 4: the block"),
        (
            ("--groups", "2", "--alpha", "3"),
            "--alpha: staleness = 3: allowed for 2 blocks of a stage are",
        ),
    ],
)
def test_numbers_that_do_not_divide_are_refused(
    words: tuple[str, ...], problem: str, model: str, folder: Path, ask: Ask
) -> None:
    """In one line, and nothing is written."""
    done = ask("separable", "convert", model, "-o", "out", *words)
    assert done.code == 2
    assert problem in done.message
    assert not (folder / "out").exists()


def test_flags_of_a_converted_network_are_refused(model: str, folder: Path, ask: Ask) -> None:
    """What it is like is known."""
    assert ask("separable", "convert", model, "--groups", "2", "-o", "two").code == 0
    done = ask(
        *("separable", "train", "--data", "none", "--from", "two/network.safetensors"),
        *("--policy", "none", "-o", "run", "--depth", "20"),
    )
    assert done.code == 2
    assert "--depth changes nothing of --from" in done.message
    plain = ask(
        *("separable", "train", "--data", "none", "--from", "two/network.safetensors"),
        *("--policy", "plain", "-o", "run"),
    )
    assert plain.code == 2
    assert "--policy plain: --from two/network.safetensors is of" in plain.message
