"""Networks of others in groups: what is read, what is kept, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from benchmarks.accuracy.export import export

from partita.errors import ModelError
from partita.graph import load_graph
from partita.separable.convert import Conversion, convert
from partita.separable.graph import build_graph
from partita.separable.module import SeparableNet
from partita.separable.policy import rotating, silent
from partita.separable.read import ReadNetwork, read_network
from partita.separable.residual import count_parameters
from partita.zoo import build_model
from partita.zoo.builder import Builder
from tests.separable.others import torch_network

Write = Callable[[Builder, str], str]


def _read(model: onnx.ModelProto) -> ReadNetwork:
    return read_network(load_graph(model, optimise=False))


def _answer(model: onnx.ModelProto, image: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (answer,) = session.run(None, {session.get_inputs()[0].name: image})
    return np.asarray(answer)


def _image(conversion: Conversion) -> np.ndarray:
    dice = np.random.default_rng(0)
    return dice.standard_normal((1, *conversion.network.image)).astype(np.float32)


def _assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def _assert_module_equals_graph(conversion: Conversion, staleness: int) -> None:
    policy = rotating(conversion.network, staleness)
    net = SeparableNet.of(conversion.network, conversion.weights).eval()
    weights = {key: value.numpy() for key, value in net.state_dict().items()}
    image = _image(conversion)
    with torch.no_grad():
        expected = net(torch.from_numpy(image), policy).numpy()
    _assert_close(_answer(build_graph(conversion.network, policy, weights), image), expected)


@pytest.mark.parametrize(
    ("name", "groups", "staleness", "kept"),
    [("resnet18", 4, 2, 1.0), ("resnet50", 2, 1, 0.779), ("resnext50_32x4d", 8, 1, 1.0)],
)
def test_networks_of_the_zoo(name: str, groups: int, staleness: int, kept: float) -> None:
    """The module is the graph; what lies between groups inside a block is all that is lost.

    ResNet-50's 3x3 convolutions mix all channels: half of their 11.3 M weights lie between groups.
    """
    source = _read(build_model(name, size=64))
    conversion = convert(source, groups)
    assert conversion.kept / conversion.given == pytest.approx(kept, abs=1e-3)
    _assert_module_equals_graph(conversion, staleness)


def test_one_group_is_the_network_itself() -> None:
    """The plain network that is read answers as the file does."""
    model = build_model("resnet18", size=64)
    conversion = convert(_read(model), 1)
    image = _image(conversion)
    network = conversion.network
    again = build_graph(network, silent(network), conversion.weights)
    _assert_close(_answer(again, image), _answer(model, image))
    assert conversion.kept == conversion.given == conversion.network.count_parameters()


@pytest.mark.parametrize("paths", [1, 4])
def test_an_export_of_pytorch_has_its_normalisations_folded(paths: int) -> None:
    """Convolutions have biases; all stays one network, in module and graph, in two groups."""
    model = export(torch_network(paths), (1, 3, 32, 48))
    source = _read(model)
    plain = convert(source, 1)
    again = build_graph(plain.network, silent(plain.network), plain.weights)
    _assert_close(_answer(again, _image(plain)), _answer(model, _image(plain)))
    conversion = convert(source, 2)
    assert conversion.network.stages == (2, 2)
    assert conversion.kept == conversion.given if paths > 1 else conversion.kept < conversion.given
    _assert_module_equals_graph(conversion, 2)


def test_kept_weights_are_where_they_were() -> None:
    """Each group's first convolution has its rows, the last its columns, those between both."""
    source = _read(export(torch_network(1), (1, 3, 32, 32)))
    groups, conversion = 4, convert(source, 4)
    name = "stage1.block0.conv"
    first, middle, last = (source.weights[f"{name}{number}.weight"] for number in (1, 2, 3))
    parts = [
        [np.split(conversion.weights[f"{name}{number}.weight"], groups)[g] for g in range(groups)]
        for number in (1, 2, 3)
    ]
    inner = len(first) // groups
    for group in range(groups):
        own = slice(group * inner, (group + 1) * inner)
        assert (parts[0][group] == first[own]).all()
        assert (parts[1][group] == middle[own, own]).all()
        assert (parts[2][group] == last[:, own]).all()


def test_each_group_does_its_share_of_the_work() -> None:
    """Of branches; shortcuts are in every group, and so are normalisations behind branches."""
    groups, source = 8, _read(build_model("resnext50_32x4d", size=32))
    conversion = convert(source, groups)
    grown = 0
    for whole, part in zip(source.network.chain, conversion.network.chain, strict=True):
        assert whole.count_macs() == groups * part.count_macs()
        grown += count_parameters(whole.shortcut, whole.shape_in) + 2 * whole.channels
    assert conversion.network.count_parameters() == conversion.given + (groups - 1) * grown


def _blocks(builder: Builder, x: str, **bottleneck: int) -> str:
    """A stem, one bottleneck, and a classifier."""
    x = builder.relu(builder.conv(x, "stem", 8), "stem.relu")
    inner, groups = bottleneck.get("inner", 8), bottleneck.get("groups", 1)
    y = builder.relu(builder.conv(x, "a", inner, kernel=1), "a.relu")
    y = builder.conv(y, "b", inner, groups=groups)
    y = builder.conv(y, "c", 8, kernel=1, groups=bottleneck.get("last", 1))
    return _classify(builder, builder.relu(builder.add(y, x, "sum"), "sum.relu"))


def _classify(builder: Builder, x: str) -> str:
    return builder.dense(builder.flatten(builder.mean(x, "mean"), "flat"), "fc", 3)


def _one_convolution(builder: Builder, x: str) -> str:
    x = builder.relu(builder.conv(x, "stem", 8), "stem.relu")
    return _classify(builder, builder.add(builder.conv(x, "a", 8), x, "sum"))


def _gate(builder: Builder, x: str) -> str:
    x = builder.relu(builder.conv(x, "stem", 8), "stem.relu")
    y = builder.conv(builder.swish(builder.conv(x, "a", 8), "a.swish"), "b", 8)
    return _classify(builder, builder.add(y, x, "sum"))


def _between(builder: Builder, x: str) -> str:
    x = builder.relu(builder.conv(x, "stem", 8), "stem.relu")
    for name in ("one", "two"):
        y = builder.conv(builder.conv(x, f"{name}.a", 8), f"{name}.b", 8)
        x = builder.conv(builder.add(y, x, f"{name}.sum"), f"{name}.behind", 8)
    return _classify(builder, x)


def _twins(builder: Builder, x: str) -> str:
    x = builder.relu(builder.conv(x, "stem", 8), "stem.relu")
    sides = [builder.conv(builder.conv(x, f"{n}.a", 8), f"{n}.b", 8) for n in ("one", "two")]
    return _classify(builder, builder.add(*sides, "sum"))


@pytest.mark.parametrize(
    ("write", "groups", "problem"),
    [
        (_one_convolution, 2, r"ends at 'sum': its branch is one convolution"),
        (_gate, 2, r"'a.swish.sigmoid' \(Sigmoid\)|'a' \(Conv\) and|is in a block"),
        (_between, 2, r"'one.behind' \(Conv\) lies between blocks"),
        (_twins, 2, r"'sum' \(Add\) adds two chains with as many convolutions"),
        (lambda b, x: _blocks(b, x, inner=6), 4, r"groups = 4: allowed for '.*' are 1, 2, 3, 6: "),
        (lambda b, x: _blocks(b, x, groups=2), 4, r"are 1, 2: the block that ends at 'sum' has 2"),
        (lambda b, x: _blocks(b, x, last=2), 2, r"its last convolution has 2 groups"),
        (lambda b, x: _classify(b, b.conv(x, "stem", 8)), 2, "has no residual block"),
        (lambda b, x: _blocks(b, x), 0, r"groups = 0: allowed for"),
    ],
)
def test_what_has_no_separable_form_is_named(write: Write, groups: int, problem: str) -> None:
    """The node or block, and why."""
    builder = Builder("odd")
    model = builder.finish(write(builder, builder.add_input("x", (1, 3, 8, 8))))
    with pytest.raises(ModelError, match=problem):
        convert(_read(model), groups)


@pytest.mark.parametrize("name", ["mobilenet_v2", "googlenet"])
def test_other_families_are_refused(name: str) -> None:
    """In one line that names the model."""
    with pytest.raises(ModelError, match=name):
        _read(build_model(name, size=64))
