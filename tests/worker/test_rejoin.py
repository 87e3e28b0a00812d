"""A join file that changes under a worker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.fabric.sites import dated, new_site, options_of

from partita.credentials import Joiner, Site, add_member, renew_members, revoke_member
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join
from partita.worker.rejoin import JoinWatch


class Watched:
    """A watch over nano's file, and whether the worker has a plan."""

    def __init__(self, site: Site) -> None:
        self.is_idle = False
        self.path = site.join_file("nano")
        self.watch = JoinWatch(self.path, options_of(site, "nano"), lambda: self.is_idle)
        assert self.watch.look() is None


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of the test's own."""
    return new_site(tmp_path / "garage")


def members(found: ZenohOptions | None) -> set[str]:
    """Who is in."""
    return set() if found is None else {member.name for member in found.members}


def test_who_is_revoked_is_out_at_once(site: Site) -> None:
    """Even in the middle of a plan; who is let in again instead is not waited for, either."""
    watched = Watched(site)
    left = revoke_member(site, "box")
    assert members(watched.watch.look()) == {"nano", "leader", "front"}
    add_member(left, Joiner("box", "worker"))
    assert members(watched.watch.look()) == {"nano", "box", "leader", "front"}


def test_all_else_waits_for_the_plan_to_end(site: Site) -> None:
    """Who is let in, and new keys, disturb nothing that runs."""
    watched = Watched(site)
    grown = add_member(site, Joiner("pi", "worker"))
    assert watched.watch.look() is None
    assert watched.watch.look() is None
    watched.is_idle = True
    assert "pi" in members(watched.watch.look())
    renewed = Watched(grown)
    renew_members(grown, ["nano"])
    assert renewed.watch.look() is None
    renewed.is_idle = True
    found = renewed.watch.look()
    assert found is not None
    assert found.tls is not None
    assert found.tls.key == read_join(renewed.path).key


def test_what_cannot_be_used_changes_nothing(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged, missing, outdated or foreign file is told once; what it said before holds."""
    watched = Watched(site)
    watched.is_idle = True
    old = watched.path.read_bytes()
    foreign = new_site(tmp_path / "barn", "barn").join_file("nano").read_bytes()
    for data, told in (
        (b"words", "cannot be used"),
        (dated(site, "nano", -2, -1).read_bytes(), "has expired"),
        (foreign, "is of cluster 'barn' now"),
    ):
        caplog.clear()
        watched.path.write_bytes(data)
        assert watched.watch.look() is None
        assert watched.watch.look() is None
        assert len(caplog.messages) == 1
        assert told in caplog.text
    watched.path.unlink()
    assert watched.watch.look() is None
    watched.path.write_bytes(old)
    with caplog.at_level(logging.INFO):
        assert watched.watch.look() is None
