"""``partita keys``, and what commands make of join files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.api import Access, check_members, find_addresses, find_outsiders, find_way
from partita.cli.actions import worker as action
from partita.cluster import load_cluster
from partita.credentials import load_site, revoke_member
from partita.errors import ClusterError
from partita.fabric.join import read_join
from partita.worker import WorkerOptions
from tests.cli.conftest import Ask

CLUSTER = """
[cluster]
name = "garage"
requester = "nano"

[[device]]
name = "nano"
kind = "raspberry-pi-4"
address = "tcp/192.0.2.7:7447"

[[device]]
name = "box"
kind = "raspberry-pi-4"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""


@pytest.fixture
def garage(tmp_path: Path, ask: Ask) -> Path:
    """A cluster file, and the site made of it."""
    (tmp_path / "garage.toml").write_text(CLUSTER)
    reply = ask("keys", "init", str(tmp_path / "site"), "--cluster", str(tmp_path / "garage.toml"))
    assert reply.code == 0
    return tmp_path


def test_one_command_makes_all(garage: Path, ask: Ask) -> None:
    """Devices are workers at the file's addresses, secured; a leader and a front come with them."""
    reply = ask("keys", "show", "--site", str(garage / "site"), "--json")
    shown = {
        m["name"]: (m["role"], m["address"], m["state"]) for m in json.loads(reply.out)["members"]
    }
    assert shown == {
        "nano": ("worker", "tls/192.0.2.7:7447", "in"),
        "box": ("worker", "", "in"),
        "leader": ("leader", "", "in"),
        "front": ("front", "", "in"),
    }
    reply = ask("keys", "add", "pi", "--site", str(garage / "site"), "--address", "tcp/192.0.2.9:1")
    assert "pi.join" in reply.out
    assert "partita worker --join pi.join" in reply.out
    assert ask("keys", "rotate", "pi", "--site", str(garage / "site")).code == 0
    assert "new files" in ask("keys", "revoke", "box", "--site", str(garage / "site")).out
    join = read_join(garage / "site" / "pi.join")
    assert {m.name for m in join.members} == {"nano", "pi", "leader", "front"}
    shown = ask("keys", "show", "--site", str(garage / "site")).out
    assert "revoked" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("init site --cluster garage.toml", "is a site already"),
        ("add nano --site site", "'nano' is taken"),
        ("add pi --site site --role king", "--role is 'king', allowed: worker, leader, front"),
        ("add a/b --site site", "'a/b' is no name"),
        ("revoke moon --site site", "called 'moon'"),
        ("show --site elsewhere", "is no site"),
        ("init other --cluster garage.toml --days 0", "allowed: 1 to 7300"),
    ],
)
def test_slips_are_one_line(
    garage: Path, ask: Ask, words: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What, where, and what is allowed."""
    monkeypatch.chdir(garage)
    reply = ask("keys", *words.split())
    assert reply.code == 2
    assert message in reply.err
    assert len(reply.err.strip().splitlines()) == 1


def test_a_worker_joins_as_its_file_says(
    garage: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name, cluster, addresses, role and credentials; flags may add where it listens."""
    served: list[WorkerOptions] = []
    monkeypatch.setattr(action, "serve", lambda options, **_: served.append(options))
    path = garage / "site" / "nano.join"
    assert ask("worker", "--join", str(path)).code == 0
    assert ask("worker", "--join", str(path), "--listen", "tls/[::]:7447").code == 0
    assert ask("worker", "--join", str(garage / "site" / "box.join")).code == 0
    first, told, box = (options.network for options in served)
    assert (first.name, first.cluster, first.role) == ("nano", "garage", "worker")
    assert (first.listen, first.connect) == (("tls/192.0.2.7:7447",), ())
    assert not first.multicast
    assert first.tls is not None
    assert served[0].join == str(path)
    assert told.listen == ("tls/[::]:7447",)
    assert (box.listen, box.connect, box.multicast) == ((), ("tls/192.0.2.7:7447",), True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "worker --join site/leader.join",
            "is a leader's: give the one that partita keys made for this worker",
        ),
        ("worker --join site/nano.join --name box", "--name does not go with --join"),
        ("worker --join garage.toml", "cannot be used"),
        ("worker --join none.join", "cannot be read"),
        ("worker", "--name is missing"),
        (
            "drain nano --cluster garage.toml --join site/front.join",
            "a front's, 'front'; needed",
        ),
        (
            "drain nano --cluster garage.toml --join site/nano.join",
            "a worker's, 'nano'; needed",
        ),
        ("doctor --cluster garage.toml --join site/nano.join", "is a worker's, 'nano'"),
        ("doctor --cluster garage.toml --join site/leader.join --insecure", "Leave out --insecure"),
        ("doctor --cluster barn.toml --join site/leader.join", "is for cluster 'garage'"),
        (
            "drain pi --cluster grown.toml --join site/leader.join",
            "Device 'pi' cannot be used: it is no member by join file 'site/leader.join' (revoked",
        ),
        ("plan m.onnx --cluster garage.toml --join site/leader.join", "--join needs --real"),
    ],
)
def test_join_files_in_the_wrong_place(
    garage: Path, ask: Ask, words: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another role's, another cluster's, beside other credentials: one line, before anything."""
    monkeypatch.chdir(garage)
    (garage / "barn.toml").write_text(CLUSTER.replace("garage", "barn"))
    pi = '[[device]]\nname = "pi"\nkind = "raspberry-pi-4"\naddress = "tcp/192.0.2.9:1"\n\n[[link]]'
    (garage / "grown.toml").write_text(CLUSTER.replace("[[link]]", pi))
    reply = ask(*words.split())
    assert reply.code == 2
    assert message in reply.err
    assert len(reply.err.strip().splitlines()) == 1


def test_who_is_no_member_is_said_of_that_device_alone(garage: Path) -> None:
    """Whoever was revoked since the cluster file was written keeps nobody else from being used."""
    cluster = load_cluster(garage / "garage.toml")
    access = Access(join=garage / "site" / "leader.join")
    assert find_outsiders(cluster, access) == {}
    revoke_member(load_site(garage / "site"), "box")
    outsiders = find_outsiders(cluster, access)
    assert list(outsiders) == ["box"]
    check_members(["nano"], outsiders)
    with pytest.raises(ClusterError, match="'box' cannot be used: it is no member") as caught:
        check_members(["nano", "box"], outsiders)
    assert "keys add" not in caught.value.message
    assert find_outsiders(cluster, Access(workers=False)) == {}


def test_a_leader_finds_workers_by_both_files(garage: Path) -> None:
    """The cluster file's addresses, secured, come first; the join file's fill in."""
    cluster = load_cluster(garage / "garage.toml")
    access = Access(join=garage / "site" / "leader.join")
    assert find_addresses(cluster, access) == {"nano": "tls/192.0.2.7:7447"}
    way = find_way(cluster, access)
    assert way is not None
    assert way.name == "leader"
    assert (way.role, way.connect, way.multicast) == ("leader", ("tls/192.0.2.7:7447",), True)
    assert find_way(cluster, Access(workers=False)) is None
    with pytest.raises(ClusterError, match="cannot be read"):
        find_way(cluster, Access(join=garage / "none.join"))
