"""``partita quantize``: tables, files, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.numpy_helper import from_array, to_array

from partita.plan import load_plan
from partita.quantisation.file import load_findings
from tests.cli.conftest import Ask, tiny_model
from tests.models import make_model
from tests.quantised_models import residual_network


@pytest.fixture
def samples(folder: Path) -> str:
    """Return a folder of two samples of the tiny model."""
    (folder / "samples").mkdir()
    rng = np.random.default_rng(0)
    for number in range(2):
        np.save(folder / f"samples/{number}.npy", rng.random((1, 3, 16, 16), np.float32))
    return "samples"


def test_a_table_and_a_file(ask: Ask, folder: Path, samples: str) -> None:
    """Errors fall with more bits; the file is smaller, and the table is read back."""
    answer = ask(
        *("quantize", "m.onnx", "--samples", samples, "--errors", "e.json", "-o", "q.onnx"),
        "--json",
    )
    assert answer.code == 0
    reply = answer.reply
    assert reply["samples"] == 2
    assert reply["signal_to_noise_db"] > 25
    # What is under a kilobyte is not packed, and that is much of so small a network.
    assert reply["stored_bytes"] < reply["weight_bytes"] / 1.9
    first = next(layer for layer in reply["layers"] if layer["name"] == "first")
    assert [each["bits"] for each in first["weights"]] == [2, 3, 4, 6, 8]
    errors = [each["error"] for each in first["weights"]]
    assert errors == sorted(errors, reverse=True)
    assert (first["weight_bits"], first["activation_bits"]) == (8, 8)
    onnx.checker.check_model(onnx.load(folder / "q.onnx"))
    kept = load_findings(folder / "e.json")
    assert kept.errors is not None
    assert kept.errors.weights["first"][2] == errors[0]
    assert kept.bits["first"].weight == 8


def test_a_plan_with_bits_from_end_to_end(ask: Ask, folder: Path, samples: str) -> None:
    """The plan holds the bits; every verb that reads it computes with them."""
    ask("quantize", "m.onnx", "--samples", samples, "--weights", "4", "--errors", "e.json")
    words = ("--cluster", "pair.toml", "--planner", "equal_rows", "-o", "b.json")
    assert ask("plan", "m.onnx", *words, "--bits", "e.json").code == 0
    plan = load_plan(folder / "b.json")
    assert plan.bits == load_findings(folder / "e.json").bits
    assert plan.model.hash != load_plan(folder / "p.json").model.hash
    checked = ask("check", "b.json", "--json")
    assert checked.code == 0
    assert checked.reply["float_relative"] <= 1e-5
    told = ask("check", "b.json").out
    assert "No bits: " in told
    assert " at most from the network in these bits (tensor" in told
    assert " at most from the network without bits to the model file itself" in told
    assert "Bits:        what they cost is no part of this" in told
    assert "bits" not in ask("check", "p.json").out
    assert ask("simulate", "b.json").code == 0
    assert ask("export", "b.json", "-o", "parts").code == 0
    ran = ask("run", "b.json", "--requests", "2", "--check", "--json")
    assert (ran.code, ran.reply["passed"]) == (0, True)


def test_a_plan_on_integer_kernels_from_end_to_end(ask: Ask, folder: Path, samples: str) -> None:
    """The plan says so, and every verb that reads it computes with them."""
    ask("quantize", "m.onnx", "--samples", samples, "--errors", "e.json")
    words = ("plan", "m.onnx", "--cluster", "pair.toml", "--planner", "equal_rows", "-o", "i.json")
    assert ask(*words, "--bits", "e.json", "--kernels", "integer").code == 0
    assert load_plan(folder / "i.json").integer_kernels
    checked = ask("check", "i.json", "--json")
    assert (checked.code, checked.reply["lossy_transfers"]) == (0, False)
    assert ask("simulate", "i.json").code == 0
    assert ask("export", "i.json", "-o", "codes").code == 0
    ran = ask("run", "i.json", "--requests", "2", "--check")
    assert ran.code == 0
    assert " from the network in these bits at most, largest value" in ran.out
    assert "Bits:        what they cost is no part of this" in ran.out
    assert "Lab:         not emulated in speed: a, b. They compute" in ran.out
    assert "no layer of model 'm' is quantised" in ask(*words, "--kernels", "integer").message
    assert "allowed: integer, float" in ask(*words, "--kernels", "int8").message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "'bits.json' holds no bits"),
        ('{"bits": {"first": {"weight": 5}}}', "'first': weight of 5 bits, allowed: 2, 3, 4, 6, 8"),
        ('{"bits": {"first": {"width": 8}}}', "unknown field `width`"),
        ('{"bits": {"last": {"weight": 8}}}', "'last' is no layer and no float32 input of it"),
    ],
)
def test_files_of_bits_that_do_not_fit(ask: Ask, folder: Path, text: str, words: str) -> None:
    """One line says what is wrong, and where."""
    (folder / "bits.json").write_text(text)
    answer = ask("plan", "m.onnx", "--cluster", "pair.toml", "--bits", "bits.json")
    assert answer.code == 2
    assert words in answer.message
    assert (
        "'gone.json' cannot be read"
        in ask("plan", "m.onnx", "--cluster", "pair.toml", "--bits", "gone.json").message
    )


def test_people_see_a_table(ask: Ask, samples: str) -> None:
    """Each layer with weights has its errors in a row, and what was chosen is said."""
    answer = ask("quantize", "m.onnx", "--samples", samples, "--weights", "4", "--clip", "aciq")
    assert answer.code == 0
    assert "weights 4, activations 8" in answer.out
    assert "of it floats, in tensors too small to be packed" in answer.out
    assert "dense" in answer.out
    assert re.search(r"layer +W2 +W3 +W4 +W6 +W8 +A2 +A3 +A4 +A6 +A8", answer.out)


def test_layers_that_bear_no_width_are_kept(ask: Ask, samples: str) -> None:
    """Names are told, and have no bits; nothing is kept where all is good enough."""
    words = ("quantize", "m.onnx", "--samples", samples, "--activations", "3", "--keep-float")
    answer = ask(*words, "25", "--errors", "e.json", "--json")
    kept = answer.reply["kept_float"]
    assert kept["activations"]
    assert kept["weights"] == []
    bits = load_findings(Path("e.json")).bits
    assert {name for name in kept["activations"] if name in bits and bits[name].activation} == set()
    plain = ask(*words, "-100", "--json").reply
    assert plain["kept_float"] == {"weights": [], "activations": []}
    assert plain["signal_to_noise_db"] < answer.reply["signal_to_noise_db"]
    assert f"Floats:      activations of {', '.join(kept['activations'])}" in ask(*words, "25").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--weights", "5"], "--weights cannot have 5 bits, allowed: 2, 3, 4, 6, 8"),
        (["--clip", "best"], "--clip is 'best', allowed: max, mse, aciq, lapq"),
        (["--measure", "psnr"], "--measure is 'psnr', allowed: mse, output-mse, noise, kl, cross"),
        (["--keep-float", "nan"], "got nan, allowed: -100 to 200"),
        (["--weights", "6", "-o", "q.onnx"], "cannot be written with 6 bits: an ONNX file allows"),
        (["-o", "m.onnx"], "'m.onnx' is an input of this command"),
        (["-o", "q.onnx", "--errors", "q.onnx"], "'q.onnx' is another output of this command"),
        (["--samples", "nowhere"], "'nowhere' does not exist"),
    ],
)
def test_what_cannot_be_is_refused(
    ask: Ask, folder: Path, samples: str, words: list[str], message: str
) -> None:
    """One line, exit code 2, and nothing written."""
    given = words if "--samples" in words else ["--samples", samples, *words]
    answer = ask("quantize", "m.onnx", *given)
    assert answer.code == 2
    assert message in answer.message
    assert not (folder / "q.onnx").exists()


def half_model() -> onnx.ModelProto:
    """Return the tiny model with weights, input and answer of 16 bits."""
    model = tiny_model()
    graph = model.graph
    halves = [to_array(one).astype(np.float16) for one in graph.initializer]
    named = [from_array(one, old.name) for one, old in zip(halves, graph.initializer, strict=True)]
    del graph.initializer[:]
    graph.initializer.extend(named)
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return model


def coded_model() -> onnx.ModelProto:
    """Return a product of codes, whose answer is a float."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "codes"),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["p"], "product"),
        helper.make_node("Cast", ["p"], ["f"], "float", to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["y"], "scaled"),
    ]
    return make_model(nodes, {"x": [1, 16]}, ["y"], {"w": rng.integers(-9, 9, (16, 5), np.int8)})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (half_model(), "'q' cannot be rounded: its weights are float16, allowed: float32."),
        (residual_network(), "'q' comes quantised and is not rounded again: its layers have bits"),
        (coded_model(), "'q' comes quantised and is not rounded again"),
    ],
)
def test_models_that_cannot_be_rounded_say_why(
    ask: Ask, folder: Path, samples: str, model: onnx.ModelProto, words: str
) -> None:
    """By ``quantize``, and by planners that choose bits; as they are they are planned for."""
    onnx.save(model, folder / "q.onnx")
    plan = ("plan", "q.onnx", "--cluster", "pair.toml", "--planner", "autosplit", "-o", "o.json")
    compare = ("compare", "q.onnx", "--cluster", "pair.toml", "--planners", "autosplit")
    for command in (("quantize", "q.onnx"), plan, compare):
        answer = ask(*command, "--samples", samples)
        assert answer.code == 2
        assert words in answer.message
    assert not (folder / "o.json").exists()
    assert ask(*plan).code == 0


def test_two_outputs_and_a_layer_that_is_left(ask: Ask, folder: Path, samples: str) -> None:
    """Each output is told beside both, and which weights stay as they are."""
    model = tiny_model()
    nodes = [
        helper.make_node("Cast", ["f"], ["fh"], "narrow", to=onnx.TensorProto.FLOAT16),
        helper.make_node("MatMul", ["fh", "w4"], ["zh"], "other"),
        helper.make_node("Cast", ["zh"], ["z"], "wide", to=onnx.TensorProto.FLOAT),
    ]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(from_array(np.ones((8, 3), np.float16), "w4"))
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1, 3]))
    onnx.save(model, folder / "two.onnx")
    words = ("quantize", "two.onnx", "--samples", samples)
    reply = ask(*words, "--json").reply
    each = {one["name"]: one["signal_to_noise_db"] for one in reply["outputs"]}
    assert list(each) == ["y", "z"]
    assert min(each.values()) <= reply["signal_to_noise_db"] <= max(each.values())
    assert reply["left"] == [{"name": "other", "weights": "float16"}]
    told = ask(*words).out
    assert f"on the samples; y {each['y']:.1f} dB, z {each['z']:.1f} dB" in told
    assert "Left:        weights of other, which are float16: only float32 is rounded" in told


def test_a_sample_with_nan_is_refused(ask: Ask, folder: Path, samples: str) -> None:
    """The line names the file."""
    np.save(folder / "samples/bad.npy", np.full((1, 3, 16, 16), np.nan, np.float32))
    answer = ask("quantize", "m.onnx", "--samples", samples)
    assert answer.code == 2
    assert "bad.npy' has 768 values for 'x' that are NaN" in answer.message
