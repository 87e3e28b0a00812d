"""Who is at a worker's address: it is tried step by step, as a person would by hand."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import zenoh

from partita.errors import first_line
from partita.fabric.certificates import MISNAMED, STRANGERS, TlsOptions, load_contexts
from partita.fabric.key_expressions import Keys
from partita.fabric.zenoh_options import (
    ZenohOptions,
    close_session,
    control_address,
    open_session,
    session_config,
    split_address,
)

#: States of a worker that is not where it should be.
SILENT = "does not answer"
NOBODY_LISTENS = "nobody listens"
UNTRUSTED = "certificate refused"
NO_WORKER = "no worker there"
OTHER_CLUSTER = "other cluster"
OTHER_NAME = "other name"

#: A step on a network that works takes a few round trips, each under 0.3 s.
_STEP_S = 2.0
#: A host refuses a datagram within a round trip, if it does.
_REFUSAL_S = 0.5
#: X509_V_ERR_* of OpenSSL, by what is wrong with a worker's certificate.
_DATES = {9: "is not valid yet (are both clocks right?)", 10: "has expired: sign a new one"}


class Absence(NamedTuple):
    """Why a worker is not where it should be.

    Attributes:
        state: One of this module's states.
        why: One sentence for people.
        cluster: The cluster in which the worker is instead; empty where it is in none.
    """

    state: str
    why: str
    cluster: str = ""


def find_absence(address: str, name: str, cluster: str, tls: TlsOptions | None) -> Absence | None:
    """Why the worker of that name and cluster is not at an address; None where it is.

    Takes some seconds. Whether the worker is seen elsewhere, or answers, makes no difference.

    Args:
        address: Where it should be, as in a cluster file.
        name: The device's name.
        cluster: The cluster's name.
        tls: The credentials with which it is asked, which were checked before.
    """
    for port, use in ((address, "data"), (control_address(address), "control")):
        if (obstacle := _try_port(port, use)) is not None:
            return obstacle
    is_tls = split_address(address)[0] == "tls"
    if is_tls and tls is not None and (obstacle := _try_credentials(address, tls)):
        return obstacle
    try:
        seen = _list_tokens(address, tls)
    except zenoh.ZError:
        return Absence(NO_WORKER, _describe_stranger(address, has_credentials=tls is not None))
    if not seen:
        return Absence(SILENT, _describe_silence(address, tls))
    return _judge_tokens(seen, address, name, cluster)


def find_absences(
    addresses: Mapping[str, str], cluster: str, tls: TlsOptions | None
) -> dict[str, Absence]:
    """Why workers are not at their addresses, all tried at the same time; none of those that are.

    Args:
        addresses: By name.
    """
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses), "absence") as pool:
        tried = {
            name: pool.submit(find_absence, address, name, cluster, tls)
            for name, address in addresses.items()
        }
    found = {name: future.result() for name, future in tried.items()}
    return {name: absence for name, absence in found.items() if absence is not None}


def explain_nobody(addresses: Mapping[str, str], cluster: str, tls: TlsOptions | None) -> str:
    """Why no worker at all is there, in a sentence about one of them; empty where nobody knows.

    Who listens has more to say than who does not.
    """
    absences = find_absences(addresses, cluster, tls)
    told = sorted(absences, key=lambda name: absences[name].state == NOBODY_LISTENS)
    return f"{told[0]!r}: {absences[told[0]].why}." if told else ""


def _try_port(address: str, use: str) -> Absence | None:
    protocol, host, port = split_address(address)
    try:
        if protocol == "quic":
            _knock(host, port)
        else:
            socket.create_connection((host, port), _STEP_S).close()
    except socket.gaierror:
        return Absence(NOBODY_LISTENS, f"host {host!r} is unknown; correct the address")
    except TimeoutError:
        why = f"host {host} is silent at port {port} ({use}): off, elsewhere, or behind a firewall"
        return Absence(NOBODY_LISTENS, why)
    except OSError as error:
        reason = error.strerror or first_line(error)
        why = f"port {port} of {host} ({use}): {reason}; start the worker, or correct the address"
        return Absence(NOBODY_LISTENS, why)
    return None


def _knock(host: str, port: int) -> None:
    """Send a byte over UDP, which a host that is there refuses where nobody listens.

    Raises:
        OSError: It did; silence says nothing.
    """
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as link:
        link.settimeout(_REFUSAL_S)
        link.connect(where)
        link.send(b"\0")
        with contextlib.suppress(TimeoutError):
            link.recv(1)


def _try_credentials(address: str, tls: TlsOptions) -> Absence | None:
    """What a handshake says; one that ends in silence is none of the credentials' matter."""
    _, context = load_contexts(tls)
    context.check_hostname = tls.verify_name
    context.hostname_checks_common_name = False  # nor does Zenoh
    try:
        _shake_hands(address, context)
    except ssl.SSLCertVerificationError as error:
        return Absence(UNTRUSTED, f"its certificate {_describe_certificate(error, address, tls)}")
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return Absence(NO_WORKER, f"what listens at {address} speaks no TLS; is it tcp/?")
        reason = (error.reason or "").partition("ALERT_")[2].replace("_", " ").lower()
        why = f"it refuses the certificate '{tls.shown.certificate}' ({reason})"
        return Absence(UNTRUSTED, f"{why}; have it signed by the worker's authority")
    except OSError:  # no answer in time, or a connection that was closed without a word
        return Absence(NO_WORKER, f"what listens at {address} answers no TLS; correct the address")
    return None


def _shake_hands(address: str, context: ssl.SSLContext) -> None:
    """Shake hands, and wait a moment for an alert: TLS 1.3 judges the client afterwards."""
    _, host, port = split_address(address)
    with (
        socket.create_connection((host, port), _STEP_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        wrapped.settimeout(_STEP_S / 4)
        try:
            wrapped.recv(1)
        except TimeoutError:
            return


def _describe_certificate(
    error: ssl.SSLCertVerificationError, address: str, tls: TlsOptions
) -> str:
    if error.verify_code in _DATES:
        return _DATES[error.verify_code]
    if error.verify_code in STRANGERS:
        return f"is not signed by the authority '{tls.shown.authority}' ({error.verify_message})"
    if error.verify_code in MISNAMED:
        return f"is not for host {split_address(address)[1]!r} ({error.verify_message})"
    return f"is not accepted: {error.verify_message}"


def _list_tokens(address: str, tls: TlsOptions | None) -> set[tuple[str, str]]:
    """Cluster and name of what is announced at an address, and nowhere else.

    Raises:
        zenoh.ZError: Nobody there speaks Zenoh.
    """
    # The ports are as the others' are; whether they may be used was decided before.
    options = ZenohOptions("doctor", connect=(address,), tls=tls, insecure=True)
    config = session_config(options, control=True)
    limits: dict[str, object] = {
        "scouting/gossip/enabled": False,  # else the neighbours' neighbours would be seen, too
        "connect/exit_on_failure": True,
        "connect/timeout_ms": int(_STEP_S * 1000),
    }
    for key, value in limits.items():
        config.insert_json5(key, json.dumps(value))
    session = open_session(config)
    try:
        replies = session.liveliness().get(Keys("*").alive("*", "*"), timeout=_STEP_S)
        keys = [str(reply.ok.key_expr).split("/") for reply in replies if reply.ok is not None]
        return {(key[1], key[3]) for key in keys}
    finally:
        close_session(session)


def _describe_stranger(address: str, *, has_credentials: bool) -> str:
    protocol, host, port = split_address(address)
    if protocol == "quic":
        return (
            f"nothing answers at {address}, and UDP does not say why: off, behind a firewall,"
            " another program, or one side's certificate is not signed by the other's authority; a"
            f" worker at tls/{host}:{port} would be told apart"
        )
    if protocol == "tcp":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            _shake_hands(address, context)
        except ssl.SSLError as error:
            is_tls = "ALERT" in (error.reason or "")  # it refuses whoever has no certificate
        except OSError:
            is_tls = False
        else:
            is_tls = True
        if is_tls:
            speaks, there = f"what listens at {address} speaks TLS", f"tls/{host}:{port}"
            if has_credentials:
                return f"{speaks}; write {there} for a worker"
            return (
                f"{speaks} and wants credentials: --join FILE, as partita keys makes it, or {there}"
                " with --authority, --certificate and --key"
            )
    return f"what listens at {address} is no worker, or is busy; correct the address"


def _judge_tokens(
    seen: set[tuple[str, str]], address: str, name: str, cluster: str
) -> Absence | None:
    if (cluster, name) in seen:
        return None
    if elsewhere := sorted(other for other, there in seen if there == name):
        why = f"it is in cluster {elsewhere[0]!r}, the file's name is {cluster!r}"
        return Absence(OTHER_CLUSTER, f"{why}; start it with --cluster-name", elsewhere[0])
    where, who = min(seen)
    why = f"the worker at {address} is called {who!r}, of cluster {where!r}"
    return Absence(OTHER_NAME, f"{why}; correct --name or the file", where)


def _describe_silence(address: str, tls: TlsOptions | None) -> str:
    if tls is None or not tls.origin:
        return f"nobody is announced at {address}; is its worker still starting?"
    return (
        f"the worker at {address} tells nothing to '{tls.origin}': it was revoked, or the worker's"
        " own join file is older than this one (or it is still starting); partita keys show"
    )
