"""What members of a site can do to each other: real endpoints on loopback, with certificates."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zenoh

from partita.credentials import Site
from partita.errors import ClusterError, LinkError, RunError
from partita.fabric import Caller, ZenohEndpoint, ZenohOptions
from partita.fabric.absence import SILENT, UNTRUSTED, find_absence
from partita.fabric.access_rules import write_rules
from partita.fabric.flows import Envelope, write_envelope
from partita.fabric.join import JoinFile
from partita.fabric.key_expressions import Keys
from partita.fabric.zenoh_endpoint import find_mute
from partita.fabric.zenoh_options import session_config
from partita.lab.ports import free_addresses
from partita.worker.leaders import check_leader
from tests.conformance.fabrics import Inbox
from tests.fabric.sites import dated, new_site, options_of

KEYS = Keys("garage")
#: What gets through is there within a few round trips; what does not is waited for so long.
NOTHING_S = 0.5


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One site for all tests of this file."""
    return new_site(tmp_path_factory.mktemp("site") / "garage")


class Nano:
    """A worker that listens and keeps what it hears."""

    def __init__(self, options: ZenohOptions) -> None:
        self.address = options.listen[0]
        self.calls: list[str] = []
        self.endpoint = ZenohEndpoint(options)
        self.inbox = Inbox(self.endpoint)
        self.endpoint.serve(self._answer)
        self.inbox.watch(self.endpoint)
        self.endpoint.announce(b"nano")

    def _answer(self, caller: Caller, method: str, body: bytes) -> bytes:
        if method != "hello":
            check_leader(caller, method)
        self.calls.append(method)
        return body


@pytest.fixture
def nano(site: Site) -> Iterator[Nano]:
    """The worker of that name."""
    (address,) = free_addresses(1)
    served = Nano(options_of(site, "nano", listen=(address.replace("tcp/", "tls/"),)))
    yield served
    served.endpoint.close()


Join = Callable[..., ZenohEndpoint]


@pytest.fixture
def join(site: Site, nano: Nano) -> Iterator[Join]:
    """What opens an endpoint of a member that knows where nano is."""
    with contextlib.ExitStack() as stack:

        def open_as(member: str, **settings: object) -> ZenohEndpoint:
            options = options_of(site, member, connect=(nano.address,), **settings)
            endpoint = ZenohEndpoint(options)
            stack.callback(endpoint.close)
            return endpoint

        yield open_as


def test_members_do_what_they_are_there_for(nano: Nano, join: Join) -> None:
    """A leader deploys, a front looks, workers send each other pieces and notes; all are seen.

    A leader hears itself, too: its own heartbeats.
    """
    leader, front, box = join("leader"), join("front"), join("box")
    led, boxed = Inbox(leader), Inbox(box)
    box.announce(b"box")
    leader.announce(b"")
    leader.notify("leader-1f", b"own")
    led.wait(lambda: led.notes == [("leader-1f", b"own")])
    assert leader.call("nano", "prepare", b"plan", 5.0) == b"plan"
    assert front.call("nano", "hello", b"who", 5.0) == b"who"
    assert leader.info("nano", 5.0) == b"nano"
    box.send("nano", b"head", b"piece")
    box.notify("nano", b"note")
    nano.inbox.wait(lambda: bool(nano.inbox.pieces and nano.inbox.notes))
    assert nano.inbox.pieces == [("box", b"head", b"piece")]
    assert nano.inbox.notes == [("box", b"note")]
    nano.endpoint.send("box", b"back", b"x" * 300_000)
    boxed.wait(lambda: bool(boxed.pieces))
    assert [(source, len(data)) for source, _, data in boxed.pieces] == [("nano", 300_000)]
    nano.inbox.wait(
        lambda: {name for name, there in nano.inbox.seen if there} >= {"box", "leader-1f"}
    )
    assert leader.mute() == front.mute() == box.mute() == nano.endpoint.mute() == set()


@pytest.mark.parametrize("name", ["box", "front"])
def test_who_is_no_leader_deploys_nothing(
    nano: Nano, join: Join, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told in one line what is wrong, and so is the worker's log."""
    other = join(name)
    with pytest.raises(RunError, match=f"takes 'prepare' from leaders only, '{name}.*' is a"):
        other.call("nano", "prepare", b"", 5.0)
    assert nano.calls == []
    assert "refused 'prepare'" in caplog.text


def test_who_only_says_that_it_is_a_leader_is_not_heard(nano: Nano, join: Join) -> None:
    """The role is part of the key, and the certificate is a worker's."""
    liar = join("box", role="leader")
    with pytest.raises(LinkError):
        liar.call("nano", "prepare", b"", 1.0)
    assert nano.calls == []


def test_who_says_another_name_is_not_heard(nano: Nano, join: Join) -> None:
    """Pieces, notes, calls and tokens count under the certificate's own name alone."""
    join("box").call("nano", "hello", b"", 5.0)
    liar = join("box", name="leader-1f", role="leader", patience_s=NOTHING_S)
    with pytest.raises(LinkError):
        liar.call("nano", "prepare", b"", 1.0)
    with contextlib.suppress(LinkError):  # it cannot know that nobody hears it
        liar.send("nano", b"head", b"piece")
    liar.notify("nano", b"note")
    liar.announce(b"")
    time.sleep(NOTHING_S)
    assert (nano.calls, nano.inbox.pieces, nano.inbox.notes) == (["hello"], [], [])
    assert "leader-1f" not in nano.endpoint.peers()


@pytest.fixture
def attacker(site: Site, nano: Nano) -> Iterator[Callable[[bool], Any]]:
    """Bare sessions with the box's certificate, which heed no rules of their own."""
    with contextlib.ExitStack() as stack:

        def attack(control: bool) -> Any:
            options = options_of(site, "box", connect=(nano.address,))
            free = dataclasses.replace(options, members=())
            session = zenoh.open(session_config(free, control=control))
            stack.callback(session.close)
            return session

        yield attack


def test_a_session_of_its_own_gets_no_further(
    nano: Nano, join: Join, attacker: Callable[[bool], Any]
) -> None:
    """Neither writing under others' keys nor listening at them: the rules are the receivers'."""
    data, control = attacker(False), attacker(True)
    heard: list[str] = []
    leader = join("leader")
    leader.announce(b"")
    attachment = write_envelope(Envelope(7, 0, 0, 1, 2, b"head"), b"xx")
    for source in ("leader-1f", "nano", "*"):
        data.put(KEYS.data("nano", source), b"xx", attachment=attachment)
    for role, source in (("leader", "leader-1f"), ("leader", "box"), ("*", "*")):
        replies = control.get(KEYS.call("nano", role, source), timeout=NOTHING_S)
        assert [reply for reply in replies if reply.ok is not None] == []
    declared = [
        session.declare_subscriber("partita/garage/**", lambda sample: heard.append(str(sample)))
        for session in (data, control)
    ]
    declared += [
        control.declare_queryable("partita/garage/**", lambda query: heard.append(str(query))),
        control.liveliness().declare_token(KEYS.alive("nano", "f00d")),
    ]
    time.sleep(NOTHING_S)
    assert leader.call("nano", "prepare", b"plan", 5.0) == b"plan"
    leader.send("nano", b"head", b"secret")
    leader.notify("nano", b"secret")
    nano.inbox.wait(lambda: bool(nano.inbox.pieces and nano.inbox.notes))
    assert nano.inbox.pieces == [("leader-1f", b"head", b"secret")]
    assert nano.calls == ["prepare"]
    assert heard == []
    for each in declared:
        each.undeclare()


def test_who_was_revoked_gets_nothing(tmp_path: Path) -> None:
    """Its certificate is good still; who does not find it among the members takes nothing of it."""
    from partita.credentials import revoke_member

    site = new_site(tmp_path / "garage")
    gone = options_of(site, "box")
    kept = tmp_path / "box.join"
    kept.write_bytes(site.join_file("box").read_bytes())
    site = revoke_member(site, "box")
    (address,) = free_addresses(1)
    nano = Nano(options_of(site, "nano", listen=(address.replace("tcp/", "tls/"),)))
    box = ZenohEndpoint(dataclasses.replace(gone, connect=(nano.address,)))
    try:
        with pytest.raises(LinkError):
            box.call("nano", "hello", b"", 1.0)
        assert box.peers() == set()
        absence = find_absence(nano.address, "nano", "garage", gone.tls)
        assert absence is not None
        assert absence.state == SILENT
        assert "it was revoked" in absence.why
        assert box.mute() == find_mute() == {"nano"}  # which is how it finds out
        box.shut_out(lambda name: name == "nano")
        assert find_mute() == set()
    finally:
        box.close()
        nano.endpoint.close()
    assert (nano.calls, nano.inbox.seen) == ([], [])


@pytest.mark.parametrize(("begins_days", "ends_days"), [(-2, -1), (1, 9)], ids=["over", "early"])
def test_a_certificate_out_of_date_gets_no_connection(
    site: Site, nano: Nano, begins_days: float, ends_days: float
) -> None:
    """Its own process refuses it at the start; one that does not is refused by the others."""
    path = dated(site, "leader", begins_days, ends_days)
    join = msgspec.json.decode(path.read_bytes(), type=JoinFile)
    options = join.apply(ZenohOptions("leader-1f", connect=(nano.address,)), str(path))
    with pytest.raises(ClusterError, match=r"has expired|not valid yet"):
        ZenohEndpoint(options)
    session = zenoh.open(session_config(options, control=True))
    try:
        query = session.get(KEYS.call("nano", "leader", "leader-1f"), timeout=NOTHING_S)
        assert [reply for reply in query if reply.ok is not None] == []
        assert list(session.liveliness().get(KEYS.alive("*", "*"), timeout=NOTHING_S)) == []
    finally:
        session.close()
    assert nano.calls == []


def test_another_site_is_a_stranger(nano: Nano, tmp_path: Path) -> None:
    """The same names of another authority get no connection, and are told why."""
    theirs = options_of(new_site(tmp_path / "theirs"), "leader", connect=(nano.address,))
    stranger = ZenohEndpoint(theirs)
    try:
        with pytest.raises(LinkError):
            stranger.call("nano", "hello", b"", 1.0)
    finally:
        stranger.close()
    absence = find_absence(nano.address, "nano", "garage", theirs.tls)
    assert absence is not None
    assert absence.state == UNTRUSTED
    assert "not signed by the authority" in absence.why
    assert nano.calls == []


def test_rules_name_each_member_once_and_let_nobody_else_in(site: Site) -> None:
    """Zenoh refuses rules whose names are not unique, and by default all that no rule allows."""
    rules: Any = write_rules("garage", site.members)
    assert rules["default_permission"] == "deny"
    names = [rule["id"] for rule in rules["rules"]]
    assert len(set(names)) == len(names)
    assert all(subject["cert_common_names"] for subject in rules["subjects"])
    named = {name for policy in rules["policies"] for name in policy["rules"]}
    assert named == set(names)
