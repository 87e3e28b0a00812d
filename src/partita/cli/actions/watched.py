"""Looking at a run while it goes on: in the terminal, on a page, or from another shell."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rich.live import Live

from partita.adapting.replanner import Replanner
from partita.cli.flags import WatchFlags
from partita.cli.output import make_console, say
from partita.cli.sources import Loaded
from partita.cost import CostModel
from partita.errors import InputError, PartitaError, RunError, how_to_install
from partita.execution import Report
from partita.leader import Session
from partita.live import (
    Foresight,
    LiveView,
    Scene,
    draw_screen,
    foresee,
    make_scene,
    offer_scene,
)
from partita.simulation import predict

#: A terminal and a page have news so often.
REFRESH_S = 0.5
#: Requests of a prediction, per request in flight: enough for a steady state.
_ROUNDS = 8


class Scenes:
    """What is known of the plans of a run.

    Args:
        loaded: The plan that was loaded, and what it is for.
        cost: What everything costs.
        replanner: Knows the plans that took over.
        served_as: What clients call the model; it comes first in titles.
    """

    def __init__(
        self, loaded: Loaded, cost: CostModel, replanner: Replanner, served_as: str = ""
    ) -> None:
        self._loaded, self._cost, self._replanner = loaded, cost, replanner
        self._foresight: Foresight | None = None
        self._title = f"{served_as}: {loaded.title}" if served_as else loaded.title

    @property
    def model(self) -> str:
        """The model's name."""
        return self._loaded.plan.model.name

    def look_ahead(self) -> None:
        """Find out what would gain over the plan that is about to run; takes some seconds."""
        with contextlib.suppress(PartitaError):  # a run is worth more than advice
            self._foresight = foresee(self._cost, self._loaded.plan)

    def describe(self, plan_hash: str) -> Scene | None:
        """What is known of a plan, by its hash; None where it never ran."""
        first = self._loaded.plan
        try:
            plan = self._replanner.plan_of(plan_hash)
        except KeyError:
            return None
        is_first = plan == first
        predicted = self._predict_loaded() if is_first else self._replanner.predict(self._requests)
        return make_scene(
            self._title,
            plan,
            self._replanner.cluster,
            predicted,
            self._foresight if is_first else None,
        )

    def _predict_loaded(self) -> Report:
        return predict(self._cost, self._loaded.plan, requests=self._requests, keep_spans=False)

    @property
    def _requests(self) -> int:
        return _ROUNDS * self._loaded.plan.in_flight


@contextlib.contextmanager
def watch_session(session: Session, scenes: Scenes, flags: WatchFlags) -> Iterator[None]:
    """Let the session be looked at from other shells, and where the flags say, until the end.

    Raises:
        InputError: The page's port is taken, or its packages are missing.
    """
    offer_scene(session.calls, scenes.describe)
    with contextlib.ExitStack() as stack:
        if flags.top or flags.page is not None:
            say("looking for what would gain")
            scenes.look_ahead()
            view = LiveView(session.sample, scenes.describe)
            if flags.page is not None:
                name = scenes.model
                say(f"live page: {stack.enter_context(_open_page(view, flags.page, name))}")
            if flags.top:
                stack.enter_context(_show_top(view))
        yield


def _open_page(view: LiveView, port: int, name: str) -> contextlib.AbstractContextManager[str]:
    check_page(port)
    from partita.live.routes import serve_live

    return serve_live(view, port, name)


def check_page(port: int = 0) -> None:
    """Refuse to serve a page without the packages that it takes, or at a port that is taken.

    Args:
        port: 0 is any that is free.

    Raises:
        InputError: Names what is missing, or the port.
    """
    try:
        from partita.live.routes import bind_page
    except ModuleNotFoundError as error:
        raise InputError(
            f"--page needs {error.name}: {how_to_install('live')}.", subject="--page"
        ) from error
    bind_page(port).close()


@contextlib.contextmanager
def _show_top(view: LiveView) -> Iterator[None]:
    """Draw snapshots on stderr, in place where that is a terminal."""
    over = threading.Event()

    def follow(live: Live) -> None:
        while not over.wait(REFRESH_S):
            with contextlib.suppress(RunError):  # the run itself says what is wrong
                live.update(draw_screen(view.snapshot()), refresh=True)

    with Live(console=make_console(stderr=True), auto_refresh=False) as live:
        thread = threading.Thread(target=follow, args=(live,), name="top", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
