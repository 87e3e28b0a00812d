"""A join file that changes under a worker, and others' files that leave it out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fabric.sites import dated, new_site, options_of

from partita.credentials import Joiner, Site, add_member, renew_members, revoke_member
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join
from partita.worker.rejoin import JoinWatch, MembershipWatch


class Watched:
    """A watch over nano's file, whether the worker has a plan, and whom it has shut out."""

    def __init__(self, site: Site) -> None:
        self.is_idle = False
        self.is_out: Callable[[str], bool] = lambda name: False
        self.path = site.join_file("nano")
        network = options_of(site, "nano")
        self.watch = JoinWatch(self.path, network, lambda: self.is_idle, self.shut_out)
        assert self.watch.look() is None

    def shut_out(self, is_out: Callable[[str], bool]) -> None:
        """Note who is out."""
        self.is_out = is_out


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site of the test's own."""
    return new_site(tmp_path / "garage")


def members(found: ZenohOptions | None) -> set[str]:
    """Who is in."""
    return set() if found is None else {member.name for member in found.members}


def test_who_is_revoked_is_out_at_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A plan that runs goes on without them, and the network is joined anew once it is over."""
    watched = Watched(site)
    left = revoke_member(site, "box")
    assert watched.watch.look() is None
    assert [watched.is_out(name) for name in ("box", "box-1", "nano")] == [True, False, False]
    left = revoke_member(left, "leader")
    assert watched.watch.look() is watched.watch.look() is None
    assert [watched.is_out(name) for name in ("box", "leader-1f", "leaders")] == [True, True, False]
    told = [message.partition(":")[0] for message in caplog.messages]
    assert told == ["'box'", "'box', 'leader'"]
    watched.is_idle = True
    assert members(watched.watch.look()) == {"nano", "front"}


@pytest.mark.parametrize("is_able", [True, False])
def test_who_cannot_be_told_by_name_ends_what_runs(site: Site, is_able: bool) -> None:
    """Somebody else has the name by now; routers have nothing to shut somebody out with at all."""
    watched = Watched(site)
    if not is_able:
        watched.watch = JoinWatch(watched.path, options_of(site, "nano"), lambda: False)
        revoke_member(site, "box")
        assert members(watched.watch.look()) == {"nano", "leader", "front"}
        return
    left = revoke_member(site, "box")
    add_member(left, Joiner("box", "worker"))
    assert members(watched.watch.look()) == {"nano", "box", "leader", "front"}


def test_who_is_taken_for_no_member_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Others may be about to start, for which there is time; one that was back is told again."""
    mute = {"box"}
    watch = MembershipWatch(lambda: set(mute))
    for _ in range(3):
        watch.look()
    assert caplog.messages == []
    for _ in range(9):
        watch.look()
    assert len(caplog.messages) == 1
    assert "'box': connected, but tells this worker nothing" in caplog.text
    assert "It was revoked, or that file is older" in caplog.text
    mute.clear()
    watch.look()
    mute.add("box")
    for _ in range(5):
        watch.look()
    assert len(caplog.messages) == 2


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
