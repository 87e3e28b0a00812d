"""Names and addresses on the network: the rules that files, flags and sockets share."""

from __future__ import annotations

import re
from typing import NamedTuple

NAME_RULE = "1 to 64 letters, digits, '.', '-' and '_', a letter or digit first"
PROTOCOLS = ("tcp", "tls", "quic", "ws")
#: Those that carry credentials.
SECURE_PROTOCOLS = ("tls", "quic")
ADDRESS_RULE = (
    f"PROTOCOL/HOST:PORT with a protocol of {', '.join(PROTOCOLS)} and a port from 1 to 65534, "
    "such as 'tcp/192.0.2.7:7447' (udp loses large messages)"
)
ENDPOINT_RULE = "http://HOST:PORT/v2/models/NAME, maybe with /versions/V behind it"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENDPOINT = re.compile(r"http://[^\s/?#]+/v2/models/[^\s/?#]+(/versions/[^\s/?#]+)?")
_ADDRESS = re.compile(
    r"(?P<protocol>[a-z]+)/(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]?#]+):(?P<port>[0-9]{1,5})"
    r"(?P<rest>[?#]\S*)?"
)


class Address(NamedTuple):
    """The parts of an address; ``rest`` is what follows the port, such as ``#iface=lo``."""

    protocol: str
    host: str
    port: int
    rest: str


def is_name(text: str) -> bool:
    """Whether devices and clusters may be called ``text``.

    >>> is_name("nano-1"), is_name("a/b")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def is_endpoint(text: str) -> bool:
    """Whether a model may be served at ``text``.

    >>> is_endpoint("http://192.0.2.7:8000/v2/models/cloud"), is_endpoint("192.0.2.7:8000")
    (True, False)
    """
    return _ENDPOINT.fullmatch(text) is not None


def parse_address(text: str) -> Address | None:
    """The parts of an address, or None where it breaks ``ADDRESS_RULE``.

    >>> parse_address("tcp/192.0.2.7:7447")
    Address(protocol='tcp', host='192.0.2.7', port=7447, rest='')
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or match["protocol"] not in PROTOCOLS or not 0 < int(match["port"]) < 65535:
        return None
    return Address(match["protocol"], match["host"], int(match["port"]), match["rest"] or "")
