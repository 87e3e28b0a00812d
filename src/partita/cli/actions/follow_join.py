"""Join files that change under a service: its models are deployed anew as they say."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from partita.cli.output import say
from partita.errors import PartitaError
from partita.fabric import ZenohOptions
from partita.fabric.join import read_join
from partita.fabric.members import Member
from partita.leader.losses import REVOKED
from partita.serve import Front
from partita.serve.front import RETRY_S
from partita.worker.rejoin import JoinWatch, await_change


@contextlib.contextmanager
def follow_join(front: Front, path: Path | None) -> Iterator[None]:
    """Deploy all models anew, beside those that answer, whenever a join file has changed.

    Workers that are in no more are first done without in what runs, where that can be.
    """
    if path is None:
        yield
        return
    join, ended = read_join(path), threading.Event()
    first = join.apply(ZenohOptions(join.name), str(path))

    def follow() -> None:
        network: ZenohOptions | None = first
        while network is not None:
            before = network.members
            network = await_change(JoinWatch(path, network, lambda: True), ended)
            if network is not None:
                _give_up(front, set(before) - set(network.members))
            left = list(front.names) if network is not None else []
            while left and not ended.is_set():
                left = [name for name in left if not _deploy_again(front, name)]
                ended.wait(RETRY_S if left else 0.0)

    follower = threading.Thread(target=follow, name="serve/join", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()  # it may be deploying, for which the front waits as long as it should


def _give_up(front: Front, revoked: Collection[Member]) -> None:
    """Go on without the workers among those who are in no more, in all that runs."""
    devices = {member.name for member in revoked if member.is_worker}
    for model in front.models if devices else ():
        model.session.give_up(devices, REVOKED)


def _deploy_again(front: Front, name: str) -> bool:
    """Deploy a model anew; whether it is as it should be, or is tried again by the front itself."""
    try:
        front.load(name)
    except PartitaError as error:
        if not front.is_served(name):  # who is in no more ended what ran on all workers
            return True
        say(f"'{name}' goes on with the join file before: {error.message}")
        return False
    return True
