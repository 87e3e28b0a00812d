"""``partita separable``: from search to ONNX file, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

from partita.cli.app import _as_partita_error
from tests.cli.conftest import Ask
from tests.separable.drawn import draw_dataset

#: The smallest network, trained for a moment.
QUICK = (
    *("--setting", "tiny", "--width", "2", "--threads", "1", "--set", "train.batch=14"),
    *("--set", "search.rounds=1", "--set", "search.steps=1", "--set", "search.samples=4"),
    *("--set", "train.epochs=1"),
)


@pytest.fixture
def data(folder: Path) -> str:
    """Return a folder with a folder of pictures for each of three classes."""
    drawn = draw_dataset(30, 6)
    for part, pictures in (("train", drawn.train), ("test", drawn.test)):
        for number, (image, label) in enumerate(zip(pictures.images, pictures.labels, strict=True)):
            place = folder / "pictures" / part / f"class{label}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(place / f"{number}.png")
    return "pictures"


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_from_search_to_graph(data: str, folder: Path, ask: Ask) -> None:
    """Networks, front and picture are written; the graph answers; the reply says both accounts."""
    done = ask("separable", "search", "--data", data, "-o", "run", *QUICK, "--json")
    assert done.code == 0, done.err
    reply = done.reply
    assert reply["pictures"] == {"train": 27, "validation": 3, "test": 6}
    front = json.loads((folder / "run" / "front.json").read_text())
    assert len(front["candidates"]) == 4
    assert front["networks"] == reply["networks"]
    assert (folder / "run" / "front.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(price for one in reply["networks"] for price in one["prices"]) == [0, 0.1]
    chosen = reply["networks"][0]
    written = ask("separable", "export", f"run/{chosen['file']}", "-o", "n.onnx", "--json").reply
    assert written["difference"] <= 1e-5
    assert written["policy"] == chosen["policy"]
    assert {"maps_share", "bytes_share"} <= set(written)
    session = onnxruntime.InferenceSession(folder / "n.onnx")
    image = np.zeros((1, 3, 32, 32), np.float32)
    assert session.run(None, {"input": image})[0].shape == (1, 3)


def test_a_run_goes_on_where_it_was(data: str, folder: Path, ask: Ask) -> None:
    """With --resume alone, and only as the run it was."""
    words = ("separable", "train", "--data", data, "--policy", "9,7,16:4", "-o", "run", *QUICK)
    first = ask(*words)
    assert first.code == 0, first.err
    assert "of the ring's maps (as the paper counts)" in first.out
    assert "without group" in first.out
    assert "goes on with --resume" not in first.err
    again = ask(*words)
    assert again.message == (
        "partita: Folder 'run' has a run already: go on with --resume, or name another."
    )
    before = (folder / "run" / "network.safetensors").read_bytes()
    assert ask(*words, "--resume").code == 0
    assert (folder / "run" / "network.safetensors").read_bytes() == before
    other = ask(*words, "--resume", "--seed", "1")
    assert "is of another run: its seed is 0, not 1" in other.message


def test_the_plain_network_is_one_piece(data: str, ask: Ask) -> None:
    """It sends nothing; what trained it may begin another training."""
    words = ("separable", "train", "--data", data, *QUICK)
    plain = ask(*words, "--policy", "plain", "-o", "plain", "--json").reply
    assert plain["architecture"] == "4x2d-11"
    assert plain["bytes"] == 0
    lost = ask("separable", "export", "plain/network.safetensors", "-o", "n.onnx", "--lost", "1")
    assert "--lost 1: 4x2d-11 is one piece, which answers" in lost.message
    assert ask(*words, "--policy", "none", "-o", "none").code == 0
    more = ask(*words, "--policy", "9,7,7", "-o", "more", "--from", "none/network.safetensors")
    assert more.code == 0, more.err
    wrong = ask(*words, "--policy", "none", "-o", "x", "--from", "plain/network.safetensors")
    assert "is of 4x2d-11 with 3 classes, not of 4x2d-11 in 4 groups" in wrong.message
    named = ask(*words, "--policy", "more/network.safetensors", "-o", "same", "--json").reply
    assert named["policy"] == "9,7,7"
    halved = ask(*words, "--policy", "more/network.safetensors", "-o", "x", "--groups", "2")
    assert "'more/network.safetensors' is for 4 groups, the network has 2" in halved.message
    late = ask(*words, "--policy", "more/network.safetensors", "-o", "x", "--alpha", "2")
    assert "--alpha 2: the policy of 'more/network.safetensors' has 1" in late.message


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--groups", "3"), "--groups: groups = 3: allowed for 4 paths are 1, 2, 4"),
        (("--alpha", "2"), "--alpha: staleness = 2: allowed for 1 blocks of a stage are 1"),
        (("--depth", "12"), "--depth: depth = 12: allowed is 9 times"),
        (("--sampler", "chance"), "--sampler chance: allowed are controller, random, evolution"),
        (("--prices", "a"), "--prices 'a': allowed are numbers"),
        (("--prices", "0,0"), "--prices: allowed are numbers with commas between, each once"),
        (("--setting", "large"), "--setting 'large': allowed are paper, small, tiny"),
        (("--set", "rounds=3"), "--set rounds: allowed are search.NAME and train.NAME"),
        (("--set", "search.round=3"), "Setting 'search.round' is unknown; 'search' has: rounds"),
        (("--set", "search.rounds=0"), "Setting 'search.rounds' is 0, must be 1 to"),
        (("--set", "train.images=1"), "Setting 'train.images' is 1, must be 3 to"),
        (("--set", "train.rate=nan"), "Setting 'train.rate' is nan, must be 0 to"),
        (("--data", "nothing"), "--data: 'nothing' is no folder"),
        (("--resume",), "--resume: 'run' has no run to go on with"),
        (("--from", "m.onnx"), "Checkpoint 'm.onnx':"),
        (("-o", "m.onnx"), "Folder 'm.onnx' cannot be made"),
        (("--drop-messages", "1"), "got 1, allowed: 0 to 0.99"),
        (("--on", "slurm"), "--on is 'slurm', allowed: ray"),
    ],
)
def test_bad_flags_are_named(
    words: tuple[str, ...], problem: str, data: str, folder: Path, ask: Ask
) -> None:
    """One line each, and nothing half-written."""
    done = ask("separable", "search", "--data", data, "-o", "run", *QUICK, *words)
    assert problem in done.message
    assert done.code == 2
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("policy", "words", "problem"),
    [
        ("plain", ("--groups", "4"), "the network is one piece; leave --groups out"),
        (
            "9,7",
            (),
            "--policy '9,7': 2 decisions: 4x2d-11 in 4 groups with staleness 1 has 3 windows",
        ),
        ("24,0,0", (), "permutation 24: allowed for 4 groups are 0 to 23"),
        ("any", (), "--policy 'any': 'any' is no policy: expected a permutation's number"),
        ("no.safetensors", (), "Checkpoint 'no.safetensors':"),
        ("none", ("--halves",), "--halves changes nothing of --policy none"),
        ("0,0,0", ("--drop-messages", "0.1"), "--policy 0,0,0, which sends nothing: leave it out"),
    ],
)
def test_bad_policies_are_named(
    policy: str, words: tuple[str, ...], problem: str, data: str, ask: Ask
) -> None:
    """What is allowed is said."""
    done = ask(
        *("separable", "train", "--data", data, "-o", "run", "--policy", policy, *QUICK, *words)
    )
    assert problem in done.message


def test_a_loss_that_is_no_number_is_told(data: str, folder: Path, ask: Ask) -> None:
    """What was reached stays, and where it is is said."""
    words = ("separable", "train", "--data", data, "--policy", "none", "-o", "run", *QUICK)
    done = ask(*words, "--set", "train.rate=1e3", "--set", "train.epochs=9")
    assert done.code == 4
    told = done.err.strip().splitlines()[-1]
    assert told.startswith("partita: Training: ")
    assert "Lower the rate." in told
    assert ("holds what was reached before" in told) == (folder / "run/state.safetensors").exists()


def test_what_is_no_network_is_not_exported(data: str, folder: Path, ask: Ask) -> None:
    """A search that goes on, another file, a group that cannot be lost."""
    assert ask("separable", "search", "--data", data, "-o", "run", *QUICK).code == 0
    state = ask("separable", "export", "run/state.safetensors", "-o", "n.onnx")
    assert "has no policy: it is of a search that goes on" in state.message
    folded = ask("separable", "export", "run", "-o", "n.onnx")
    assert "Checkpoint 'run' is a folder: name a file network….safetensors of it" in folded.message
    assert "Checkpoint 'm.onnx':" in ask("separable", "export", "m.onnx", "-o", "n.onnx").message
    lost = ask("separable", "export", "run/network-1.safetensors", "-o", "n.onnx", "--lost", "0")
    assert "--lost 0: allowed for 4x2d-11 in 4 groups are 1 to 3; group 0 answers" in lost.message
    assert not (folder / "n.onnx").exists()
    words = ("run/network-1.safetensors", "-o", "n.onnx", "--lost", "2", "--lost", "2")
    assert "nodes, without group 2's messages\n" in ask("separable", "export", *words).out


@pytest.mark.parametrize(("module", "extra"), [("torch", "train"), ("tensorboard", "tensorboard")])
def test_what_is_not_installed_is_named(module: str, extra: str) -> None:
    """One line, with what to type."""
    error = _as_partita_error(ModuleNotFoundError(f"No module named '{module}'", name=module))
    assert f"pip install '.[{extra}]'" in str(error)
