"""What Zenoh refuses, in the worker's own log: lines of its log, and real impostors."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from partita.credentials import revoke_member
from partita.errors import RunError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.fabric.refusals import Refusals, read_refusal
from partita.lab.ports import free_addresses
from tests.fabric.sites import new_site, options_of
from tests.processes import worker

_PATIENCE_S = 20.0
_HEAD = "\x1b[2m2026-01-01T00:00:00.1Z\x1b[0m DEBUG rx-0 ThreadId(07) zenoh::net::routing"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            f"{_HEAD}: a1f did not match any configured ACL subject. Default permission `Deny`",
            "the owner of certificate 'box.3c': no member, by this join file: it was revoked, or"
            " let in since",
        ),
        (
            f"{_HEAD}: b2 did not match any configured ACL subject.",
            "process b2: no member, by this join file: it was revoked, or let in since",
        ),
        (
            "2026Z WARN acc-0 zenoh_link_tls::unicast\x1b[2m:\x1b[0m received fatal alert:"
            " DecryptError. Hint: increase the system open file limit.\n",
            "a connection without a certificate that is trusted here: received fatal alert:"
            " DecryptError",
        ),
        (
            f"2026Z WARN zenoh_link_tls::unicast: x\x1b]0;x\x07{'k' * 999}",
            "a connection without a certificate that is trusted here: x?]0;x?" + "k" * 153,
        ),
        (f"{_HEAD}: Access control is enabled", ""),
        ("2026Z WARN acc-0 zenoh_link_tls::unicast: tls handshake eof. Hint: increase it.\n", ""),
        ("2026Z WARN zenoh_link_tls::unicast: Connection reset by peer (os error 104)", ""),
        ("2026Z WARN zenoh_link_tls::utils: Skipping name verification of TLS server", ""),
        ("", ""),
    ],
)
def test_lines_of_refusals(line: str, told: str) -> None:
    """They name the certificate where it is known; what an impostor writes moves no cursor."""
    assert read_refusal(line, lambda identity: {"a1f": "box.3c"}.get(identity, "")) == told


def test_who_tries_on_and_on_is_told_once_a_minute() -> None:
    """Others are told meanwhile, but no more than somebody can make up; counts are kept."""
    refusals = Refusals()
    assert refusals.note("a", 0.0) == "a"
    assert [refusals.note("a", second) for second in (0.1, 30.0, 59.0)] == ["", "", ""]
    assert refusals.note("b", 59.0) == "b"
    assert refusals.note("a", 60.0) == "a (3 more since that was told)"
    told = [refusals.note(f"c{number}", 61.0) for number in range(500)]
    assert 90 < sum(map(bool, told)) < 100
    assert refusals.note("d", 200.0) == "d"


def await_words(log: Path, *words: str) -> str:
    """What a log has once it says all of some words."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not all(each in log.read_text() for each in words):
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.05)
    return log.read_text()


def knock(options: ZenohOptions, address: str) -> None:
    """Ask a worker who it is, as somebody who gets no answer."""
    endpoint = ZenohEndpoint(dataclasses.replace(options, connect=(address,)))
    try:
        with pytest.raises(RunError):
            endpoint.info("nano", 1.5)
    finally:
        endpoint.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_impostors_are_told_in_the_workers_log(tmp_path: Path, form: str) -> None:
    """A revoked one and a stranger: a line each, though they try on and on; members get none."""
    site = new_site(tmp_path / "site")
    front, leader = (options_of(site, name) for name in ("front", "leader"))
    revoked = next(member.subject for member in site.members if member.name == "front")
    stranger = options_of(new_site(tmp_path / "other"), "leader")
    site = revoke_member(site, "front")
    (address,) = (each.replace("tcp/", "tls/") for each in free_addresses(1))
    words = ("--listen", address, "--log-format", form)
    with worker("nano", tmp_path, "--join", str(site.join_file("nano")), *words) as log:
        await_words(log, "listens on")
        endpoint = ZenohEndpoint(dataclasses.replace(leader, connect=(address,)))
        assert endpoint.info("nano", _PATIENCE_S)
        endpoint.close()
        assert "refused" not in log.read_text()
        knock(front, address)
        await_words(log, "no member, by this join file")
        knock(stranger, address)
        text = await_words(log, "a connection without a certificate that is trusted here")
    assert text.count(f"the owner of certificate '{revoked}': no member, by this join file") == 1
    assert text.count("trusted here") == 1
    if form == "json":
        lines = [json.loads(line) for line in text.splitlines()]
        assert any("trusted here" in line["message"] for line in lines)
