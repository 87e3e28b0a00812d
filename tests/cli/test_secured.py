"""Commands on a secured cluster without credentials that work there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from partita.cli.actions import drain, top
from partita.credentials import revoke_member
from partita.fabric import ZenohEndpoint
from partita.lab.ports import free_addresses
from tests.cli.conftest import Ask
from tests.fabric.sites import new_site, options_of

CLUSTER = """
[cluster]
name = "garage"
requester = "nano"

[[device]]
name = "nano"
kind = "raspberry-pi-4"
address = "{0}"
"""


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker that lets in a leader, and a front no more; files are in the working folder."""
    monkeypatch.chdir(tmp_path)
    for action in (top, drain):
        monkeypatch.setattr(action, "_WAIT_S", 0.5)
    site = new_site(tmp_path / "site")
    for name in ("leader", "front"):
        shutil.copy(site.join_file(name), f"{name}.join")
    (address,) = free_addresses(1)
    Path("garage.toml").write_text(CLUSTER.format(address), encoding="utf-8")
    left = revoke_member(site, "front")
    secure = address.replace("tcp/", "tls/")
    endpoint = ZenohEndpoint(options_of(left, "nano", listen=(secure,)))
    endpoint.announce(b"")
    yield
    endpoint.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("top --once", "speaks TLS and wants credentials: --join FILE"),
        ("drain nano", "speaks TLS and wants credentials: --join FILE"),
        ("top --once --join front.join", "tells nothing to 'front.join': it was revoked"),
    ],
)
def test_why_nobody_is_there_is_said(secured: None, ask: Ask, words: str, told: str) -> None:
    """Not that no plan runs, nor that the worker is not there: it is."""
    reply = ask(*words.split(), "--cluster", "garage.toml")
    assert reply.code == 4
    assert "'nano': " in reply.message
    assert told in reply.message


@pytest.mark.slow
def test_who_is_let_in_is_told_of_plans(secured: None, ask: Ask) -> None:
    """That none runs is true then."""
    reply = ask("top", "--once", "--cluster", "garage.toml", "--join", "leader.join")
    assert reply.code == 4
    assert "No plan runs on cluster 'garage'" in reply.message
