"""Blocks cover the model, and a small one is really measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from partita.errors import BundleError, ClusterError
from partita.graph import Graph, load_graph
from partita.loading import (
    Division,
    choose_division,
    load_blocks,
    load_bundle,
    measure_blocks,
    save_blocks,
    write_bundle,
)
from partita.loading.cut.blocks import choose_borders
from partita.zoo import build_model
from tests.cost.fakes import conv_graph, skip_graph
from tests.loading.cut.drawn import make_profile


@pytest.fixture(scope="module")
def network() -> Graph:
    """Return a network with skips."""
    return load_graph(build_model("mobilenet_v2", size=32), name="mobilenet_v2")


@pytest.mark.parametrize("count", [1, 2, 7, 24])
def test_blocks_cover_the_model_once(network: Graph, count: int) -> None:
    """Borders increase up to the last layer, as many as asked for."""
    ends = choose_borders(network, count)
    assert len(ends) == count
    assert ends[-1] == len(network.layers)
    assert all(a < b for a, b in pairwise((0, *ends)))


def test_borders_are_even_and_cross_little(network: Graph) -> None:
    """No block holds three times its share, and fewer bytes cross than on average."""
    ends = choose_borders(network, 8)
    layers, cuts = network.layers, network.cuts()
    for start, stop in pairwise((0, *ends)):
        part = layers[start:stop]
        shares = [
            sum(layer.weight_bytes for layer in part) / sum(layer.weight_bytes for layer in layers),
            sum(layer.macs for layer in part) / sum(layer.macs for layer in layers),
            len(part) / len(layers),
        ]
        assert sum(shares) / 3 <= 3 / 8
    crossing = sum(cuts[end].bytes for end in ends[:-1]) / len(ends[:-1])
    assert crossing < sum(cut.bytes for cut in cuts[1:-1]) / len(cuts[1:-1])


def test_few_layers() -> None:
    """A model of three layers has three blocks at most."""
    assert choose_borders(conv_graph(), 24) == [1, 2, 3]
    assert choose_borders(skip_graph(), 1) == [len(skip_graph().layers)]


@pytest.mark.parametrize("place", [0, 1, 20, 30])
def test_a_border_lies_before_the_trainable_layers(network: Graph, place: int) -> None:
    """No block holds both trainable layers and earlier ones."""
    ends = choose_borders(network, 5, (network.layers[place].name,))
    assert place in (0, *ends)
    assert len(ends) == 5


def test_what_cannot_be_divided(network: Graph) -> None:
    """No block, or an unknown layer."""
    with pytest.raises(BundleError, match="0 blocks: allowed are 1 to"):
        choose_borders(network, 0)
    with pytest.raises(BundleError, match="Trainable layer 'nose' is unknown"):
        choose_borders(network, 3, ("nose",))


def test_a_profile_comes_back_from_its_file(tmp_path: Path) -> None:
    """What was saved is loaded, equal."""
    profile = make_profile([1, 2, 3], [1, 1, 1], trainable=1)
    save_blocks(profile, tmp_path / "blocks.json")
    assert load_blocks(tmp_path / "blocks.json") == profile


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"schema": 1', '"schema": 9', "key 'schema': got 9"),
        ('"blocks"', '"bricks"', "is none"),
        ('"first": 3', '"first": 4', "do not follow each other"),
        ('"contention": 1.0', '"contention": 0.5', "a contention below 1"),
        ('"infer_s": 1.0', '"infer_s": -9.0', "a time below 0 s"),
        ('"create_s": 2.0', '"create_s": -2.0', "a time below 0 s"),
        ("{", "[", "is none"),
    ],
)
def test_damaged_profiles(tmp_path: Path, old: str, new: str, message: str) -> None:
    """An error that names the file, and no traceback of a reader."""
    path = tmp_path / "blocks.json"
    save_blocks(make_profile([1.0, 2.0], [1.0, 1.0]), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ClusterError, match=message) as caught:
        load_blocks(path)
    assert "blocks.json" in str(caught.value)
    with pytest.raises(ClusterError, match="cannot be read"):
        load_blocks(tmp_path / "missing.json")


@pytest.mark.slow
def test_a_small_model_is_measured(network: Graph, tmp_path: Path) -> None:
    """Every figure is there, and the division chosen by them is a bundle that answers."""
    told: list[int] = []
    last = network.layers[-1].name
    profile = measure_blocks(
        network,
        most_blocks=5,
        threads=1,
        repeats=2,
        trainable=[last],
        progress=lambda done, total, name: told.append(done),
    )
    assert told == list(range(2 * 6))
    assert [block.trainable for block in profile.blocks] == [False] * 4 + [True]
    assert profile.last_start == 4
    stops = [block.stop for block in profile.blocks]
    assert [block.first for block in profile.blocks] == [0, *stops[:-1]]
    assert stops[-1] == len(network.layers)
    # Weights of at least a page's kilobyte are counted, with the gaps up to the next page.
    weights = sum(layer.weight_bytes for layer in network.layers)
    assert weights * 0.9 < sum(block.weight_bytes for block in profile.blocks) < weights * 1.5
    # The smallest block may take no more than what every child takes.
    assert all(block.load_s() >= 0 and block.compute_s() >= 0 for block in profile.blocks)
    assert sum(block.compute_s() for block in profile.blocks) > 0
    assert profile.contention >= 1 <= profile.cold_contention
    assert profile.read_bytes_per_s > 0
    save_blocks(profile, tmp_path / "blocks.json")
    assert load_blocks(tmp_path / "blocks.json") == profile
    choice = choose_division(profile, loaders=2, most_children=3)
    write_bundle(network, [Division("s", choice.ends)], tmp_path / "b", trainable=[last])
    with load_bundle(tmp_path / "b") as session:
        session.wait()
        assert session.is_loaded
