"""What an endpoint may expose, and where its control session lives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from partita.errors import ClusterError, RunError
from partita.fabric import TlsOptions, ZenohEndpoint, ZenohOptions, check_exposure, control_address
from partita.fabric.zenoh_options import is_loopback, session_config, split_address
from partita.lab.ports import free_addresses

TLS = TlsOptions("ca.pem", "cert.pem", "key.pem")


@pytest.mark.parametrize(
    "options",
    [
        ZenohOptions("a", listen=("tcp/0.0.0.0:7447",)),
        ZenohOptions("a", listen=("tcp/[::]:7447",)),
        ZenohOptions("a", connect=("tcp/192.0.2.7:7447",)),
        ZenohOptions("a", listen=("tcp/192.0.2.7:7447",), tls=TLS),
        ZenohOptions("a", listen=("tls/192.0.2.7:7447",)),
        ZenohOptions("a", listen=("tcp/somewhere:7447",)),
        ZenohOptions("a", multicast=True),
    ],
)
def test_exposed_without_credentials_is_refused(options: ZenohOptions) -> None:
    """Addresses outside loopback need credentials, or the user's word that none are wanted."""
    with pytest.raises(ClusterError, match="without credentials"):
        check_exposure(options)
    with pytest.raises(ClusterError, match="without credentials"):
        ZenohEndpoint(options)
    open_options = replace(options, insecure=True)
    if any(one.startswith("tls/") for one in options.listen) and options.tls is None:
        with pytest.raises(ClusterError, match="--authority, --certificate and --key"):
            check_exposure(open_options)
    else:
        check_exposure(open_options)


@pytest.mark.parametrize(
    "options",
    [
        ZenohOptions("a", listen=("tcp/127.0.0.1:7447",), connect=("tcp/localhost:7450",)),
        ZenohOptions("a", listen=("tcp/[::1]:7447",)),
        ZenohOptions("a", listen=("tls/192.0.2.7:7447",), tls=TLS),
    ],
)
def test_loopback_and_mutual_tls_are_allowed(options: ZenohOptions) -> None:
    """Nothing is asked for on one machine; outside it a certificate is enough."""
    check_exposure(options)


@pytest.mark.parametrize(
    "address", ["", "192.0.2.7:7447", "tcp/host", "tcp/host:0", "tcp/h:65535", "udp/h:7447"]
)
def test_malformed_addresses_are_named(address: str) -> None:
    """An address that cannot be used is an error that shows the right form."""
    with pytest.raises(ClusterError, match="PROTOCOL/HOST:PORT") as caught:
        split_address(address)
    assert caught.value.subject == address


def test_control_lives_one_port_above() -> None:
    """The control session's address is the data session's with the next port."""
    assert control_address("tcp/192.0.2.7:7447") == "tcp/192.0.2.7:7448"
    assert is_loopback("127.5.0.1")
    assert not is_loopback("10.0.0.1")


def test_shared_memory_of_zenoh_is_off() -> None:
    """It would go around links that network namespaces emulate."""
    for control in (True, False):
        config = session_config(ZenohOptions("a"), control=control)
        assert not json.loads(config.get_json("transport/shared_memory/enabled"))


def test_whom_others_tell_of_is_not_connected_to_where_that_is_off() -> None:
    """Else either end of a pair may begin, which one that was frozen takes amiss."""
    for control in (True, False):
        config = session_config(ZenohOptions("a", discovers=False), control=control)
        assert json.loads(config.get_json("scouting/gossip/autoconnect")) == []
        config = session_config(ZenohOptions("a"), control=control)
        assert json.loads(config.get_json("scouting/gossip/autoconnect")) != []


def test_taken_port_is_one_line() -> None:
    """Two endpoints on one port: the second says so and leaves nothing behind."""
    options = ZenohOptions("a", listen=tuple(free_addresses(1)))
    first = ZenohEndpoint(options)
    try:
        with pytest.raises(RunError, match="cannot join the network") as caught:
            ZenohEndpoint(replace(options, name="b"))
        assert "\n" not in caught.value.message
    finally:
        first.close()
