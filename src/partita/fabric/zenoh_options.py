"""How a Zenoh endpoint reaches the network, and what it refuses for safety."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import re
from dataclasses import dataclass
from typing import Any

import zenoh

from partita.errors import ClusterError
from partita.fabric.access_rules import write_rules
from partita.fabric.base import check_name
from partita.fabric.certificates import TlsOptions, check_credentials, is_for_host
from partita.fabric.members import Member, Role
from partita.fabric.socket_options import Ports, give_up_connecting
from partita.naming import ADDRESS_RULE, SECURE_PROTOCOLS, parse_address

#: Environment for processes that move tensors: without it each large message pays page faults.
WORKER_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}

#: Within a lease.
KEEP_ALIVES = 4
#: Threads of Zenoh's own loops. When many connections end at once, as after a freeze, each takes a
#: thread of those that write until it has a lock, whose holder may wait for one that writes: with
#: one thread, Zenoh's default, a process stood still for as long as a write may wait.
_THREADS = "(tx: (worker_threads: 8), net: (worker_threads: 2), acc: (worker_threads: 2))"
_REST = re.compile(r"[?#].*")
#: Whose connections stay when another session of this process is closed.
_open_sessions: list[Any] = []
_GROUP = "224.0.0.224"
_GROUP_PORT = 7446


@dataclass(frozen=True)
class ZenohOptions:
    """How one endpoint joins the fabric.

    Attributes:
        cluster: Clusters of different names do not see each other.
        listen: Addresses such as ``tcp/127.0.0.1:7447`` for data; control takes the port above.
        connect: Addresses of others, in the same form.
        discovers: Whether to connect to whom others tell of, too. Off where the addresses of
            ``connect`` are enough, and of two endpoints one has the other's: where either may
            begin, a frozen one that thaws may take a new connection for one more of an old one,
            and they do not know each other then.
        local_sockets: Whether pieces to the same host go through a local socket instead of the
            network. Must be off where links are emulated by network namespaces.
        lease_s: A peer that is silent for this long is gone.
        heartbeat_s: Interval at which watched peers are asked; they answer from their own loop.
        inbound_bytes: Most memory for pieces of which only a part has come; at least one piece.
        max_senders: Most endpoints that are listened to at the same time.
        max_calls: Most calls that are answered or wait for it; further ones are refused.
        patience_s: How long a send waits for its target to appear, and a stuck link to move.
        tls: Credentials; needed outside loopback.
        role: What this endpoint says it is. Where there are ``members``, their rules bind it to
            the certificate, as they do the name.
        members: Who may join; empty where whoever has a certificate of the authority may.
        insecure: Allow addresses outside loopback without credentials.
    """

    name: str
    cluster: str = "default"
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    multicast: bool = False
    discovers: bool = True
    local_sockets: bool = True
    lease_s: float = 2.0
    heartbeat_s: float = 0.5
    inbound_bytes: int = 2**30
    max_senders: int = 256
    max_calls: int = 64
    patience_s: float = 10.0
    tls: TlsOptions | None = None
    role: Role = "leader"
    members: tuple[Member, ...] = ()
    insecure: bool = False


def check_network(options: ZenohOptions) -> None:
    """Refuse options with which no endpoint can join.

    Raises:
        ClusterError: A name or address is malformed, or credentials are missing or no good.
    """
    check_name(options.name)
    check_name(options.cluster, "Cluster")
    check_exposure(options)
    if options.tls is not None:
        check_credentials(options.tls)


def find_misnamed(options: ZenohOptions) -> list[str]:
    """The addresses listened at of which the certificate does not have the host.

    Others may reach the endpoint by another name, so that this is no fault by itself.
    """
    tls = options.tls
    if tls is None or not tls.verify_name:
        return []
    hosts = {address: split_address(address) for address in options.listen}
    return [
        address
        for address, (protocol, host, _) in hosts.items()
        if protocol in SECURE_PROTOCOLS and not _is_everywhere(host) and not is_for_host(tls, host)
    ]


def check_exposure(options: ZenohOptions) -> None:
    """Refuse an endpoint that others on the network could use without credentials.

    Raises:
        ClusterError: An address is malformed, or lies outside loopback without mutual TLS and
            ``insecure`` is off.
    """
    for address in (*options.listen, *options.connect):
        protocol, host, _ = split_address(address)
        is_open = not (is_loopback(host) or options.insecure)
        if is_open and (options.tls is None or protocol not in SECURE_PROTOCOLS):
            raise ClusterError(
                f"Address {address!r} is outside this machine and without credentials: allowed are "
                "loopback addresses, or tls/HOST:PORT with a certificate. Give one, or say "
                "--insecure on a network where you trust everybody.",
                subject=address,
            )
        if protocol in SECURE_PROTOCOLS and options.tls is None:
            raise ClusterError(
                f"Address {address!r} needs credentials: give --authority, --certificate and "
                "--key, three PEM files, or use tcp/ on this machine.",
                subject=address,
            )
    if options.multicast and not options.insecure and options.tls is None:
        raise ClusterError(
            f"Device {options.name!r} would be found by multicast and used without credentials. "
            "Give a certificate, or say --insecure on a network where you trust everybody.",
            subject=options.name,
        )


def split_address(address: str) -> tuple[str, str, int]:
    """Protocol, host and port of an address.

    >>> split_address("tcp/192.0.2.7:7447")
    ('tcp', '192.0.2.7', 7447)
    """
    found = parse_address(address)
    if found is None:
        raise ClusterError(
            f"Address {address!r} cannot be used: allowed is {ADDRESS_RULE}.", subject=address
        )
    return found.protocol, found.host.strip("[]"), found.port


def is_loopback(host: str) -> bool:
    """Whether ``host`` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def control_address(address: str) -> str:
    """The control session's address beside a data address: the port above.

    >>> control_address("tcp/[::1]:7447#iface=lo")
    'tcp/[::1]:7448#iface=lo'
    """
    protocol, host, port = split_address(address)
    rest = "".join(_REST.findall(address))
    shown = f"[{host}]" if ":" in host else host
    return f"{protocol}/{shown}:{port + 1}{rest}"


def open_session(config: Any) -> Any:
    """A Zenoh session, to be closed with :func:`close_session`."""
    os.environ.setdefault("ZENOH_RUNTIME", _THREADS)
    session = zenoh.open(config)
    _open_sessions.append(session)
    return session


def close_session(session: Any) -> None:
    """Close a Zenoh session, whatever became of the network.

    Zenoh waits for the connections that it is about to make, to a host that is gone, or a process
    that is frozen, for up to ten seconds.
    """
    with contextlib.suppress(ValueError):
        _open_sessions.remove(session)
    with give_up_connecting(_list_used), contextlib.suppress(zenoh.ZError):
        session.close()


def _list_used() -> set[Ports]:
    """The connections of the sessions that are open."""
    links: list[Any] = []
    for session in list(_open_sessions):
        with contextlib.suppress(zenoh.ZError):  # closed meanwhile
            links += session.info.links()
    return {frozenset((_port(link.src), _port(link.dst))) for link in links}


def _port(address: Any) -> int:
    found = re.search(r":(\d+)$", _REST.sub("", str(address)))
    return int(found[1]) if found else 0


def session_config(options: ZenohOptions, *, control: bool) -> Any:
    """The Zenoh configuration of an endpoint's data or control session."""
    listen, connect = list(options.listen), list(options.connect)
    if options.multicast and not listen:
        listen = ["tls/[::]:0" if options.tls else "tcp/[::]:0"]
    elif control:
        listen, connect = (list(map(control_address, part)) for part in (listen, connect))
    config = zenoh.Config()
    for key, value in _settings(options, control=control).items():
        config.insert_json5(key, json.dumps(value))
    config.insert_json5("listen/endpoints", json.dumps(listen))
    config.insert_json5("connect/endpoints", json.dumps(connect))
    return config


def _settings(options: ZenohOptions, *, control: bool) -> dict[str, object]:
    settings: dict[str, object] = {
        "mode": "peer",
        "scouting/multicast/enabled": options.multicast,
        "scouting/multicast/address": f"{_GROUP}:{_GROUP_PORT + (1 if control else 0)}",
        "scouting/gossip/enabled": True,
        "scouting/delay": 0,  # what is not connected yet is waited for where it is needed
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
        "connect/retry": {
            "period_init_ms": 100,
            "period_max_ms": 1000,
            "period_increase_factor": 2,
        },
        "transport/link/tx/lease": int(options.lease_s * 1000),
        "transport/link/tx/keep_alive": KEEP_ALIVES,
        "transport/link/tx/queue/size/data": 16,
        # The lease finds dead peers; a merely slow link (64 kbit/s) must not lose its transport.
        "transport/link/tx/queue/congestion_control/block/wait_before_close": 10_000_000,
        # Processes of one host have sockets of ours; Zenoh's pool is taken even by idle workers,
        # and goes around links that are emulated by network namespaces.
        "transport/shared_memory/enabled": False,
    }
    if not options.discovers:
        settings["scouting/gossip/autoconnect"] = []
    if options.members:
        settings["access_control"] = write_rules(options.cluster, options.members)
    return settings | _tls_settings(options.tls)


def _tls_settings(tls: TlsOptions | None) -> dict[str, object]:
    if tls is None:
        return {}
    parts = {
        "root_ca_certificate": tls.authority,
        "listen_certificate": tls.certificate,
        "listen_private_key": tls.key,
        "connect_certificate": tls.certificate,
        "connect_private_key": tls.key,
    }
    if tls.origin:  # texts, not files
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in parts.items()}
        parts = {f"{key}_base64": text for key, text in encoded.items()}
    flags = {"enable_mtls": True, "verify_name_on_connect": tls.verify_name}
    return {f"transport/link/tls/{key}": value for key, value in {**parts, **flags}.items()}
