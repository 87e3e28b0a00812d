"""Why a worker is not there, told apart on loopback with real endpoints and certificates."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partita.fabric import TlsOptions, ZenohEndpoint, ZenohOptions
from partita.fabric import absence as absence_module
from partita.fabric.absence import (
    NO_WORKER,
    NOBODY_LISTENS,
    OTHER_CLUSTER,
    OTHER_NAME,
    UNTRUSTED,
    Absence,
    find_absence,
)
from partita.lab.ports import free_addresses
from tests.fabric.certificates import needs_openssl, sign

Listen = Callable[..., str]


def _explain(address: str, name: str, cluster: str, tls: TlsOptions | None) -> Absence:
    absence = find_absence(address, name, cluster, tls)
    assert absence is not None
    return absence


@pytest.fixture
def listen() -> Iterator[Listen]:
    """What opens an endpoint of a name and cluster, and returns its address."""
    with contextlib.ExitStack() as stack:

        def announce(
            name: str, cluster: str, tls: TlsOptions | None = None, protocol: str = "tcp"
        ) -> str:
            protocol = "tls" if tls is not None else protocol
            address = free_addresses(1)[0].replace("tcp/", f"{protocol}/")
            endpoint = ZenohEndpoint(ZenohOptions(name, cluster, listen=(address,), tls=tls))
            stack.callback(endpoint.close)
            endpoint.announce(b"")
            return address

        yield announce


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Two plain sockets at a free port and the port above, that listen and say nothing."""
    port = int(free_addresses(1)[0].rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_server(("127.0.0.1", port + above)))
            for above in (0, 1)
        ]


def test_who_is_there_instead(listen: Listen) -> None:
    """A worker of another cluster or name is named; its neighbours are not meant."""
    there = listen("nano", "barn")
    listen("box", "barn")
    absence = _explain(there, "nano", "garage", None)
    assert (absence.state, absence.cluster) == (OTHER_CLUSTER, "barn")
    assert "'barn'" in absence.why
    assert "'garage'" in absence.why
    absence = _explain(there, "box", "barn", None)
    assert absence.state == OTHER_NAME
    assert "'nano'" in absence.why
    assert find_absence(there, "nano", "barn", None) is None


def test_a_neighbour_is_not_taken_for_who_is_there() -> None:
    """Two that know each other are told apart by the address."""
    first, second = free_addresses(2)
    with contextlib.ExitStack() as stack:
        for name, address, others in (("a", first, ()), ("b", second, (first,))):
            options = ZenohOptions(name, "barn", listen=(address,), connect=others)
            endpoint = ZenohEndpoint(options)
            stack.callback(endpoint.close)
            endpoint.announce(b"")
        absence = _explain(second, "a", "barn", None)
    assert absence.state == OTHER_NAME
    assert "'b'" in absence.why


def test_a_port_where_nobody_listens(listen: Listen) -> None:
    """The port and its use are named: the worker's control port is no data port."""
    absence = _explain(free_addresses(1)[0], "nano", "garage", None)
    assert absence.state == NOBODY_LISTENS
    assert "(data)" in absence.why
    host, _, port = listen("nano", "garage").rpartition(":")
    absence = _explain(f"{host}:{int(port) + 1}", "nano", "garage", None)
    assert absence.state == NOBODY_LISTENS
    assert f"port {int(port) + 2} of 127.0.0.1 (control)" in absence.why


def test_a_port_where_nobody_takes_datagrams() -> None:
    """A host that is there refuses them, which is said as of a connection."""
    address = free_addresses(1)[0].replace("tcp/", "quic/")
    absence = _explain(address, "nano", "garage", None)
    assert absence.state == NOBODY_LISTENS
    assert "of 127.0.0.1 (data)" in absence.why


def test_datagrams_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes them and says nothing may be anything: all is named, and how to know more."""
    monkeypatch.setattr(absence_module, "_STEP_S", 0.2)
    monkeypatch.setattr(absence_module, "_REFUSAL_S", 0.1)
    port = int(free_addresses(1)[0].rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        for above in (0, 1):
            link = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            link.bind(("127.0.0.1", port + above))
        absence = _explain(f"quic/127.0.0.1:{port}", "nano", "garage", None)
    assert absence.state == NO_WORKER
    assert f"nothing answers at quic/127.0.0.1:{port}" in absence.why
    assert "certificate is not signed" in absence.why


def test_a_host_that_is_unknown() -> None:
    """A name that no resolver knows is said to be that."""
    absence = _explain("tcp/nobody.invalid:7447", "nano", "garage", None)
    assert absence.state == NOBODY_LISTENS
    assert "'nobody.invalid' is unknown" in absence.why


def test_another_program_at_the_port(sockets: list[socket.socket]) -> None:
    """What takes connections and speaks something else is no worker."""
    port = sockets[0].getsockname()[1]
    absence = _explain(f"tcp/127.0.0.1:{port}", "nano", "garage", None)
    assert absence.state == NO_WORKER


@needs_openssl
def test_what_is_wrong_with_certificates(tmp_path: Path, listen: Listen) -> None:
    """Another authority, a refused client, another host and missing TLS are told apart."""
    ours = sign(tmp_path, "ours", "nano", "IP:127.0.0.1")
    theirs = sign(tmp_path, "theirs", "nano", "IP:127.0.0.1")
    elsewhere = sign(tmp_path, "ours", "far", "IP:192.0.2.7")
    mixed = TlsOptions(ours.authority, theirs.certificate, theirs.key)
    there = listen("nano", "garage", ours)
    far = listen("far", "garage", elsewhere)

    def explain(address: str, tls: TlsOptions | None) -> tuple[str, str]:
        absence = _explain(address, "nano", "garage", tls)
        return absence.state, absence.why

    state, why = explain(there, theirs)
    assert state == UNTRUSTED
    assert f"not signed by the authority '{theirs.authority}'" in why
    state, why = explain(there, mixed)
    assert state == UNTRUSTED
    assert f"refuses the certificate '{mixed.certificate}'" in why
    state, why = explain(far, ours)
    assert state == UNTRUSTED
    assert "not for host '127.0.0.1'" in why
    state, why = explain(there.replace("tls/", "tcp/"), None)
    assert state == NO_WORKER
    assert f"wants credentials: --join FILE, as partita keys makes it, or {there} with" in why
    assert find_absence(there, "nano", "garage", ours) is None


@needs_openssl
def test_tls_where_none_is_spoken(tmp_path: Path, listen: Listen) -> None:
    """A worker without TLS is not taken for one with a bad certificate."""
    there = listen("nano", "garage")
    tls = sign(tmp_path, "ours", "nano", "IP:127.0.0.1")
    absence = _explain(there.replace("tcp/", "tls/"), "nano", "garage", tls)
    assert absence.state == NO_WORKER
    assert "TLS" in absence.why


@needs_openssl
def test_a_certificate_that_expired_at_work(tmp_path: Path, sockets: list[socket.socket]) -> None:
    """A worker refuses to start with one, but one that runs on is told by its handshake."""
    ours = sign(tmp_path, "ours", "leader", "IP:127.0.0.1")
    expired = sign(tmp_path, "ours", "nano", "IP:127.0.0.1", days=-1)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(expired.certificate, expired.key)

    def answer() -> None:
        for _ in range(2):  # the look whether somebody listens, and the handshake
            plain, _ = sockets[0].accept()
            with contextlib.suppress(OSError), plain, server.wrap_socket(plain, server_side=True):
                pass

    thread = threading.Thread(target=answer)
    thread.start()
    port = sockets[0].getsockname()[1]
    absence = _explain(f"tls/127.0.0.1:{port}", "nano", "garage", ours)
    thread.join(timeout=5)
    assert absence.state == UNTRUSTED
    assert "has expired" in absence.why
