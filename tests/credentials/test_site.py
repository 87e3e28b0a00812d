"""A site's folder: who is in, what their files say, and what becomes of slips and faults."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.fabric.sites import MEMBERS, new_site

from partita import files
from partita.credentials import (
    Joiner,
    add_member,
    list_periods,
    load_site,
    make_site,
    renew_members,
    revoke_member,
)
from partita.errors import ClusterError
from partita.fabric.join import read_join


def test_one_call_makes_all_and_nobody_else_reads_it(tmp_path: Path) -> None:
    """An authority and a join file for each, 0600 whatever the umask, in a folder of 0700."""
    old = os.umask(0)
    try:
        site = new_site(tmp_path / "garage")
    finally:
        os.umask(old)
    names = {path.name for path in site.folder.iterdir()}
    joins = {f"{joiner.name}.join" for joiner in MEMBERS}
    assert names == {"site.json", "authority.pem", "authority.key"} | joins
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(site.folder.stat().st_mode) == 0o700
    assert load_site(site.folder) == site
    for joiner in MEMBERS:
        assert read_join(site.join_file(joiner.name)).members == site.members


def test_who_is_added_is_known_to_all(tmp_path: Path) -> None:
    """The others' files say so; their credentials stay, unless their files are elsewhere."""
    site = new_site(tmp_path / "garage")
    before = {j.name: read_join(site.join_file(j.name)) for j in MEMBERS}
    site.join_file("box").unlink()
    grown = add_member(site, Joiner("pi", "worker", "tls/192.0.2.9:7447"))
    after = {m.name: read_join(grown.join_file(m.name)) for m in grown.members}
    assert {join.members for join in after.values()} == {grown.members}
    assert after["pi"].member.address == "tls/192.0.2.9:7447"
    assert after["nano"].key == before["nano"].key
    assert after["box"].key != before["box"].key
    assert after["nano"].others == ("tls/192.0.2.9:7447",)
    assert load_site(site.folder) == grown


def test_who_is_revoked_and_let_in_again_is_another(tmp_path: Path) -> None:
    """Its old certificate has another subject than the one that is known by then."""
    site = new_site(tmp_path / "garage")
    old = read_join(site.join_file("box"))
    left = revoke_member(site, "box")
    assert not site.join_file("box").exists()
    assert "box" not in {m.name for m in read_join(site.join_file("nano")).members}
    assert left.revoked == (old.member,)
    back = add_member(left, Joiner("box", "worker"))
    new = read_join(back.join_file("box"))
    assert new.member.subject != old.member.subject
    assert load_site(site.folder).revoked == (old.member,)


def test_renewed_credentials_are_for_the_same_member(tmp_path: Path) -> None:
    """Key and certificate are new, the subject stays, so that both work until the old ends."""
    site = new_site(tmp_path / "garage")
    before = {j.name: read_join(site.join_file(j.name)) for j in MEMBERS}
    renew_members(site, ["box"])
    assert read_join(site.join_file("nano")) == before["nano"]
    box = read_join(site.join_file("box"))
    assert box.key != before["box"].key
    assert box.members == before["box"].members
    renew_members(site, [])
    assert read_join(site.join_file("nano")).key != before["nano"].key
    assert set(list_periods(site)) == {joiner.name for joiner in MEMBERS}


def test_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves a site as it was, and no new one."""
    site = new_site(tmp_path / "garage")
    before = {path.name: path.read_bytes() for path in site.folder.iterdir()}
    written = Path.write_bytes

    def fill(path: Path, data: bytes) -> int:
        if path.name.startswith("nano"):
            raise OSError(28, "No space left on device")
        return written(path, data)

    monkeypatch.setattr(files.Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space left"):
        revoke_member(site, "box")
    assert {path.name: path.read_bytes() for path in site.folder.iterdir()} == before
    with pytest.raises(OSError, match="No space left"):
        new_site(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("joiners", "message"),
    [
        ((Joiner("a/b", "worker"),), "'a/b' is no name"),
        ((Joiner("leader", "worker"), Joiner("leader", "leader")), "taken for each other"),
        ((Joiner("leader-2", "worker"), Joiner("leader", "leader")), "taken for each other"),
        ((Joiner("pi", "worker", "192.0.2.7"),), "has the address '192.0.2.7'"),
    ],
)
def test_members_that_cannot_be(tmp_path: Path, joiners: tuple[Joiner, ...], message: str) -> None:
    """Names that no network carries, or that clash, are refused before anything is written."""
    with pytest.raises(ClusterError, match=message):
        make_site(tmp_path / "site", "garage", joiners, 30)
    assert not (tmp_path / "site").exists()


def test_slips(tmp_path: Path) -> None:
    """A second site in a folder, unknown and taken names, and folders that are no site."""
    site = new_site(tmp_path / "garage")
    with pytest.raises(ClusterError, match="is a site already"):
        new_site(tmp_path / "garage")
    with pytest.raises(ClusterError, match="'box' is taken"):
        add_member(site, Joiner("box", "worker"))
    for change in (revoke_member, lambda site, name: renew_members(site, [name])):
        with pytest.raises(
            ClusterError, match="called 'moon', there are: nano, box, leader, front"
        ):
            change(site, "moon")
    with pytest.raises(ClusterError, match=r"is no site: 'site\.json' cannot be read"):
        load_site(tmp_path)


@pytest.mark.parametrize("name", ["site.json", "authority.key", "authority.pem"])
def test_a_damaged_site(tmp_path: Path, name: str) -> None:
    """The file is named; what is there is not overwritten."""
    site = new_site(tmp_path / "garage")
    (site.folder / name).write_text("words")
    before = site.join_file("nano").read_bytes()
    with pytest.raises(ClusterError, match="cannot be used"):
        add_member(load_site(site.folder), Joiner("pi", "worker"))
    assert site.join_file("nano").read_bytes() == before
