"""Join files: good ones, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from partita.credentials import Site
from partita.errors import ClusterError
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join
from partita.fabric.members import Member, find_faults
from tests.fabric.sites import change, dated, new_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One site for all tests of this file."""
    return new_site(tmp_path_factory.mktemp("site") / "garage")


def test_a_join_file_says_all_that_its_owner_needs(site: Site) -> None:
    """Name, role, cluster, members and credentials; hosts' names are no matter."""
    join = read_join(site.join_file("nano"))
    options = join.apply(ZenohOptions(join.name), "nano.join")
    assert (options.cluster, options.role, options.members) == ("garage", "worker", site.members)
    assert options.tls is not None
    assert not options.tls.verify_name
    assert options.tls.shown.key == "nano.join"


@pytest.mark.parametrize(
    ("begins_days", "ends_days", "message"),
    [
        (-2, -1, "has expired. Make new ones with partita keys rotate."),
        (1, 9, "is not valid yet (is this machine's clock right?)"),
    ],
    ids=["expired", "clock off by a day"],
)
def test_dates(site: Site, begins_days: float, ends_days: float, message: str) -> None:
    """What the others would refuse is said before anybody is asked."""
    path = dated(site, "nano", begins_days, ends_days)
    with pytest.raises(ClusterError) as caught:
        read_join(path)
    assert message in caught.value.message
    assert path.name in caught.value.message


def test_credentials_of_somebody_else(site: Site, tmp_path: Path) -> None:
    """Another member's certificate, another's key, another site's: each is told apart."""
    mine = site.join_file("nano")
    box = msgspec.json.decode(site.join_file("box").read_bytes())
    theirs = msgspec.json.decode(new_site(tmp_path / "theirs").join_file("nano").read_bytes())
    for fields, message in (
        ({"certificate": box["certificate"], "key": box["key"]}, "its certificate is of 'box."),
        ({"key": box["key"]}, "is not the key of"),
        ({"certificate": theirs["certificate"], "key": theirs["key"]}, "is not signed by"),
        ({"authority": theirs["authority"]}, "is not signed by"),
        ({"key": "words"}, "its key is no PEM, needed is a private key"),
        ({"name": "nobody"}, "its owner 'nobody' is not among its members"),
        ({"cluster": "a/b"}, "'a/b' is no name"),
        ({"members": ()}, "length >= 1"),
    ):
        with pytest.raises(ClusterError) as caught:
            read_join(change(mine, **fields))
        assert message in caught.value.message


@pytest.mark.parametrize("text", ["", "{}", "[]", "words", '{"partita_join": 2}', "\xff"])
def test_other_files(tmp_path: Path, text: str) -> None:
    """What is no join file is named, with what to do."""
    path = tmp_path / "some.join"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ClusterError, match=r"some\.join' cannot be used: .*Copy the file"):
        read_join(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """A missing file and a folder are said to be that."""
    for path, why in ((tmp_path / "no.join", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ClusterError, match=f"cannot be read: {why}"):
            read_join(path)


def test_members_that_could_be_taken_for_each_other() -> None:
    """Processes of a leader add to its name; no other may begin with that."""
    leader = Member("desk", "leader", "desk.1")
    for other, clashes in (
        (Member("desk", "worker", "desk.2"), True),
        (Member("desk-pi", "worker", "desk-pi.2"), True),
        (Member("pi", "worker", "desk.1"), True),
        (Member("desktop", "worker", "desktop.2"), False),
    ):
        assert bool(find_faults("garage", (leader, other))) is clashes
        assert bool(find_faults("garage", (other, leader))) is clashes
    (fault,) = find_faults("garage", (Member("pi", "worker", "pi.1", "tcp/192.0.2.7:7447"),))
    assert "'tcp/192.0.2.7:7447'" in fault
