"""Looking at a plan that another process runs."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from rich.live import Live

from partita.api import open_endpoint
from partita.cli.access import read_access
from partita.cli.actions.watched import REFRESH_S
from partita.cli.flags import AccessFlags
from partita.cli.output import Reply, make_console, print_reply, say
from partita.cluster import Cluster, load_cluster
from partita.errors import InputError, LinkError, RunError
from partita.fabric import Endpoint
from partita.leader import find_leaders
from partita.live import LiveView, RemoteSession, draw_screen

#: Seconds that workers may take to appear, and how often they are looked for.
_WAIT_S, _LOOK_S = 3.0, 0.05
#: A supervisor starts a leader again within seconds, and it deploys in some more. Not tuned.
_RETURN_S = 10.0


def show_top(
    path: Path, flags: AccessFlags, leader: str | None, *, once: bool, as_json: bool
) -> int:
    """Show a plan that runs on a cluster, whoever leads it, until it ends or a signal comes.

    Args:
        leader: Whose plan, by the leader's name, the plan's title or the model's; None for the only
            one.
        once: Print one snapshot, with what happened within a second; so it is for programs, too.

    Raises:
        InputError: The cluster file has no addresses.
        RunError: Nothing runs there, or several plans do.
    """
    cluster = load_cluster(path)
    if not any(device.address for device in cluster.devices):
        raise InputError(
            f"Cluster file '{path}' has no addresses, so its workers are nobody else's: 'partita"
            " lab FILE -o PLACED' runs an emulated cluster and writes where it is.",
            subject=str(path),
        )
    with open_endpoint(cluster, read_access(flags), ()) as endpoint:
        session = RemoteSession(endpoint, _choose_leader(endpoint, cluster, leader))
        view = LiveView(session.sample, session.describe)
        _await_news(view)
        if once or as_json:
            time.sleep(2 * REFRESH_S)
            now = view.snapshot()
            return print_reply(Reply(msgspec.to_builtins(now), [draw_screen(now)]), as_json=as_json)
        _follow(view, Successors(endpoint, session))
    return 0


def _await_news(view: LiveView) -> None:
    """Wait while a leader is there that has nothing to show yet; says so.

    Raises:
        RunError: That lasts, or it is gone.
    """
    deadline_s, told = time.monotonic() + _RETURN_S, ""
    while True:
        try:
            view.snapshot()
            return
        except RunError as error:
            if time.monotonic() > deadline_s:
                raise
            if error.message != told:
                told = error.message
                say(told)
            time.sleep(REFRESH_S)


def _choose_leader(endpoint: Endpoint, cluster: Cluster, wanted: str | None) -> str:
    """The leader to look at."""
    deadline_s = time.monotonic() + _WAIT_S
    while not endpoint.peers() & set(cluster.names) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
    if not endpoint.peers():
        raise LinkError(f"No worker of cluster '{cluster.name}' is there after {_WAIT_S:g} s.")
    leaders = find_leaders(endpoint)
    if wanted in leaders or (wanted is None and len(leaders) == 1):
        return wanted or leaders[0]
    if not leaders:
        raise RunError(
            f"No plan runs on cluster '{cluster.name}' that could be looked at: start one with"
            " 'partita run'.",
        )
    titles = {name: _find_title(endpoint, name) or "" for name in leaders}
    meant = [name for name, title in titles.items() if wanted in (title, title.split(": ")[0])]
    if len(meant) == 1:
        return meant[0]
    there = ", ".join(f"{title} ({name})" if title else name for name, title in titles.items())
    asked = "Several plans run"
    if wanted is not None:
        asked = f"{'Several plans are' if meant else 'No plan is'} called '{wanted}'"
    raise RunError(
        f"{asked} on cluster '{cluster.name}': {there}. Give one as --leader, by either name."
    )


def _find_title(endpoint: Endpoint, leader: str) -> str | None:
    """What a leader's plan is called, empty where it does not say; None where nobody answers."""
    session = RemoteSession(endpoint, leader)
    try:
        scene = session.describe(session.sample(0).plan)
    except RunError:
        return None
    return "" if scene is None else scene.title


class Successors:
    """Who leads a plan after a leader that is gone: one whose plan has the same title.

    Args:
        session: Of the leader that is looked at; moved to the next one.
    """

    def __init__(self, endpoint: Endpoint, session: RemoteSession) -> None:
        self._endpoint, self._session = endpoint, session

    def find(self, title: str) -> str | None:
        """What came in the leader's place, in words; None where nobody did in time."""
        old, deadline_s = self._session.leader, time.monotonic() + _RETURN_S
        while time.monotonic() < deadline_s:
            for name in find_leaders(self._endpoint):
                if self._leads(name, title):
                    self._session.leader = name
                    if name == old:
                        return f"leader {old} answers again"
                    return f"leader {old} is gone, {name} took its place"
            time.sleep(REFRESH_S)
        return None

    def _leads(self, leader: str, title: str) -> bool:
        """Whether a leader answers for a plan of that title."""
        return _find_title(self._endpoint, leader) == title


def _follow(view: LiveView, successors: Successors) -> None:
    """Draw snapshots until the leader is gone and nobody follows it."""
    now = view.snapshot()
    with Live(console=make_console(), auto_refresh=False) as live:
        while True:
            live.update(draw_screen(now), refresh=True)
            time.sleep(REFRESH_S)
            try:
                now = view.snapshot()
            except RunError as error:
                say(f"{error.message} Whether another one follows is seen within {_RETURN_S:g} s.")
                followed = successors.find(now.title)
                if followed is None:
                    say("the end: nobody follows")
                    return
                view.note("led", followed)
