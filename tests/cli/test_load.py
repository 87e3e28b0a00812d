"""Child models from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from tests.cli.conftest import Ask


def test_bundles_are_written_shown_and_run(ask: Ask, folder: Path) -> None:
    """What `split` writes, `run` answers as the whole model does."""
    made = ask("load", "split", "m.onnx", "-o", "b", "--children", "2", "--json").reply
    assert [one["name"] for one in made["variants"]] == ["tuned", "portable"]
    shown = ask("load", "show", "b", "--json").reply
    assert shown["variants"] == made["variants"]
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)
    np.save(folder / "i.npy", image)
    for variant in ("tuned", "portable"):
        words = ["--variant", variant, "--input", "i.npy", "-o", "o.npz", "--json"]
        reply = ask("load", "run", "b", *words).reply
        assert reply["variant"] == variant
        assert len(reply["children"]) == 2
        assert (
            0 < reply["children"][0]["load"]["end_s"] <= reply["children"][0]["compute"]["start_s"]
        )
        session = ort.InferenceSession(folder / "m.onnx")
        (wanted,) = session.run(None, {session.get_inputs()[0].name: image})
        with np.load(folder / "o.npz") as found:
            np.testing.assert_allclose(found[session.get_outputs()[0].name][0], wanted, atol=1e-5)


def test_where_to_cut_is_measured_unless_told(ask: Ask) -> None:
    """Without ends or a number of children, the blocks are measured and two methods asked."""
    reply = ask("load", "split", "m.onnx", "-o", "b", "--no-portable", "--json").reply
    choice = reply["choice"]
    assert {one["method"] for one in choice["found"]} == {"optimum", "balanced", "one child"}
    assert choice["found"][0]["makespan_s"] <= choice["whole_s"]
    assert len(reply["variants"][0]["children"]) == len(choice["ends"])


def test_a_bundle_is_personalised(ask: Ask, folder: Path) -> None:
    """The last layer is trained on a few samples; the bundle goes on answering."""
    layers = ask("inspect", "m.onnx", "--json").reply["layers"]
    last = layers[-1]["name"]
    ends = f"{len(layers) - 1},{len(layers)}"
    ask("load", "split", "m.onnx", "-o", "b", "--ends", ends, "--trainable", last, "--json")
    rng = np.random.default_rng(0)
    images = rng.standard_normal((10, 3, 16, 16), np.float32)
    np.savez(folder / "s.npz", x=images, y=np.arange(10) % 2)
    words = ["--samples", "s.npz", "--epochs", "2", "--json"]
    reply = ask("load", "personalise", "b", *words).reply
    assert reply["trained"] > 0
    assert set(reply["variants"]) == {"tuned", "portable"}
    assert ask("load", "run", "b", "--requests", "1", "--json").code == 0
    np.savez(folder / "z.npz", x=images)
    done = ask("load", "personalise", "b", "--samples", "z.npz")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "hold x; needed are x and y" in done.err


def test_show_verifies_a_bundle(ask: Ask, folder: Path) -> None:
    """A file that was altered is an error, also what a child is trained from."""
    words = ("--children", "2", "--trainable", "dense", "--no-portable", "--json")
    ask("load", "split", "m.onnx", "-o", "b", *words)
    assert ask("load", "show", "b", "--json").reply["verified"] is True
    for name in ("weights.bin", "child-0.onnx", "child-1.plain.onnx"):
        path = folder / "b" / "tuned" / name
        data = path.read_bytes()
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        done = ask("load", "show", "b")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f"{name}' altered" in done.err
        path.write_bytes(data)
    assert ask("load", "show", "b", "--no-verify", "--json").reply["verified"] is False


def test_inputs_that_are_not_understood(ask: Ask, folder: Path) -> None:
    """An unknown name is told as such, and drawn requests do not go with given ones."""
    ask("load", "split", "m.onnx", "-o", "b", "--children", "1", "--no-portable", "--json")
    np.save(folder / "i.npy", np.zeros((1, 3, 16, 16), np.float32))
    for words, told in (
        (("--input", "moon=i.npy"), "Input 'moon' is unknown; the model has: "),
        (("--input", "i.npy", "--requests", "3"), "--requests does not go with --input"),
    ):
        done = ask("load", "run", "b", *words)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert told in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("split m.onnx -o b --children 99", "99 children: the model has"),
        ("split m.onnx -o b --children 0", "got 0, allowed: 1 to 4096"),
        ("split m.onnx -o b --method magic", "allowed: best, optimum"),
        ("split m.onnx -o b --ends 1,x", "--ends '1,x' is not understood"),
        ("split m.onnx -o b --ends 1", "allowed are increasing numbers from 1 to"),
        ("split m.onnx -o b --trainable moon", "Trainable layer 'moon' is unknown; allowed are"),
        ("split m.onnx -o b --children 2 --trainable moon", "'moon' is unknown; allowed are"),
        ("split m.onnx -o m.onnx", "'m.onnx' is a file"),
        ("split nothing.onnx -o b", "cannot be read"),
        ("run nothing", "has no readable manifest.json"),
        ("run m.onnx", "has no readable manifest.json"),
        ("show nothing", "has no readable manifest.json"),
    ],
)
def test_bad_input_is_one_line(ask: Ask, folder: Path, words: str, told: str) -> None:
    """Each says what is wrong and what is allowed; nothing is written."""
    done = ask("load", *words.split())
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
    assert not (folder / "b").exists()
