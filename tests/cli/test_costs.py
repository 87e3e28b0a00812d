"""What devices cost where flags and cluster file name no profile for some of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from partita.api import Access
from partita.cli.actions.deployed import find_unlike_lab
from partita.cli.costs import read_cost
from partita.cli.flags import ModelFiles
from partita.cluster import Cluster, Device
from partita.cost import CostModel
from partita.host import machine_name
from partita.planners import find_plan
from partita.profile import save_profile
from partita.regions import Region
from tests.cost.fakes import WHOLE_S, conv_graph, straight_profile

BOX = {"t1": Region.full((1, 4, 16, 16))}


def test_measuring_this_machine_leaves_boards_to_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One device that is this machine changes no price of a board of a known kind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph, board = conv_graph(), Device("board", kind="raspberry-pi-4")
    kept = tmp_path / "partita" / "profiles" / f"{graph.hash[:24]}.json"
    kept.parent.mkdir(parents=True)
    save_profile(msgspec.structs.replace(straight_profile(graph), reference_s=0.5), kept)
    cluster = Cluster.of([Device("here", slow_down=2.0), board])
    files = ModelFiles(Path("m.onnx"), Path("c.toml"), None, None, "table")
    cost = read_cost(graph, cluster, files)
    assert cost.layer_s("here", "c0", BOX) == pytest.approx(2 * WHOLE_S)
    alone = CostModel(graph, Cluster.of([board])).layer_s("board", "c0", BOX)
    assert cost.layer_s("board", "c0", BOX) == alone
    assert cost.reference_s == 0.5


def test_devices_are_named_that_a_lab_runs_at_another_speed_than_their_price() -> None:
    """This machine's profile prices what a lab runs; kinds and other machines' do not."""
    graph = conv_graph()
    here = msgspec.structs.replace(straight_profile(graph), machine=machine_name())
    other = msgspec.structs.replace(here, machine="another")
    cluster = Cluster.of([Device("board", kind="raspberry-pi-4", slow_down=3.0)])
    for profiles, unlike in (
        ({}, ("board",)),
        ({"*": here}, ()),
        ({"*": other}, ("board",)),
        ({"board": here}, ("board",)),  # as measured, and the lab takes three times as long
    ):
        cost = CostModel(graph, cluster, profiles=profiles)
        plan = find_plan(cost, planner="single").plan
        assert find_unlike_lab(cost, plan, Access()) == unlike
        assert find_unlike_lab(cost, plan, Access(on_ray=True)) == ()
