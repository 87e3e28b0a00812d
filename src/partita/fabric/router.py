"""A router between networks: workers of two sites meet there, and messages between them pass it.

It is Zenoh's own, as in its router program: two sessions in the mode of a router, one for data and
one for control.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import zenoh

from partita.errors import RunError, first_line
from partita.fabric.zenoh_options import (
    ZenohOptions,
    check_network,
    close_session,
    open_session,
    session_config,
)

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


def run_router(options: ZenohOptions, wait: Callable[[], T]) -> T:
    """Pass on messages for as long as ``wait`` takes, and return what it does.

    Args:
        options: Where it listens, and which other routers it connects to. Those who reach each
            other without it do so.

    Raises:
        ClusterError: The addresses are exposed without credentials, or malformed.
        RunError: An address is taken.
    """
    check_network(options)
    with contextlib.ExitStack() as stack:
        for is_control in (False, True):
            config = session_config(replace(options, multicast=False), control=is_control)
            config.insert_json5("mode", json.dumps("router"))
            try:
                session = open_session(config)
            except zenoh.ZError as error:
                where = ", ".join(options.listen)
                raise RunError(f"No router can listen at {where}: {_reason(error)}.") from None
            stack.callback(close_session, session)
        _LOG.info("router listens on %s", ", ".join(options.listen))
        return wait()


def _reason(error: Exception) -> str:
    """What the system said, where Zenoh's text tells that; else the text without its sources."""
    text = first_line(error)
    said = re.search(r"([^:()\[\]]+) \(os error \d+\)", text)
    return said[1].strip() if said else re.sub(r" at \S+\.rs:\d+", "", text)
