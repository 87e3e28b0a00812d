"""Serving models: from files to sessions behind a port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute

from partita.api import OpenLeader, find_outsiders, open_fleet
from partita.cli.access import read_access, say_where
from partita.cli.actions.deployed import open_session
from partita.cli.actions.follow_join import follow_join
from partita.cli.actions.plan import make_options
from partita.cli.actions.simulate import read_adapt
from partita.cli.actions.watched import Scenes, check_page
from partita.cli.costs import read_cost
from partita.cli.flags import AccessFlags, AdaptFlags, ModelFiles, PlanFiles
from partita.cli.interrupt import ENDING, abandon
from partita.cli.output import Reply, print_reply, say
from partita.cli.sources import Loaded, name_sources, read_model, read_plan
from partita.cluster import Cluster, load_cluster
from partita.compile import planned_graph
from partita.cost import CostModel
from partita.errors import InputError, RunError, how_to_install
from partita.fabric import Endpoint
from partita.leader import Sample, Session
from partita.live import LiveView, Scene, offer_scene
from partita.plan import load_plan
from partita.planners import find_plan
from partita.serve import Front, listen_at, make_app, make_server, url_of
from partita.units import format_seconds

if TYPE_CHECKING:
    from partita.serve.grpc_service import GrpcServer

#: Flags that say what to plan, which a plan file has said already.
_OF_MODELS = ("objective", "in_flight", "seed")


@dataclass(frozen=True)
class Reading:
    """How files become sessions.

    Attributes:
        cluster: Cluster file; None where plans name their own.
        shapes, profiles, estimator: As :class:`~partita.cli.flags.PlanFiles` has them.
        objective: What models are planned for.
        in_flight: Most requests under way of what is planned; None for the usual number.
        given: The names of all parameters that the command line gave.
    """

    cluster: Path | None
    shapes: Sequence[str] | None
    profiles: Sequence[str] | None
    estimator: str
    objective: str
    in_flight: int | None
    seed: int
    access: AccessFlags
    adapting: AdaptFlags
    given: Sequence[str]


@dataclass(frozen=True)
class ServeOptions:
    """Where a service listens, how many requests wait, and how long its end may take.

    Attributes:
        page: Whether live pages and metrics are served, too.
        grpc: Where gRPC calls are answered, too.
    """

    listen: str
    queue: int
    grace_s: float
    page: bool = False
    grpc: str | None = None


def serve_files(
    texts: Sequence[str],
    reading: Reading,
    options: ServeOptions,
    started: Callable[[], None],
    *,
    as_json: bool,
) -> int:
    """Serve until a signal ends it; the reply is printed once all models answer.

    Args:
        texts: ``FILE`` or ``NAME=FILE``, plans or models.
        started: Called when they do.

    Raises:
        InputError: A file or a flag cannot be used, or the address is taken.
        PlanError: A plan is not for its model and cluster, or there is none.
        RunError: A worker is missing, refuses or fails.
    """
    read_adapt(reading.adapting)
    if options.page:
        check_page()
    with (
        listen_at(options.listen) as listener,
        _listen_for_grpc(options.grpc) as grpc,
        Fleets(reading) as fleets,
    ):
        sources = [
            replace(_read_source(text, reading, fleets), looks_ahead=options.page) for text in texts
        ]
        _check_flags(sources, reading)
        front = Front(sources, queue=options.queue)
        more = _list_pages(sources, front) if options.page else []
        server = make_server(make_app(front, more), front, grace_s=options.grace_s)
        with (
            server.answering(listener),
            front,
            server.ended_by_signals(ENDING),
            contextlib.ExitStack() as stack,
        ):
            started()
            if grpc is not None:
                stack.enter_context(grpc.answering(front))
            url, place = url_of(listener), None if grpc is None else grpc.place
            print_reply(_describe(front, url, place, options), as_json=as_json)
            stack.enter_context(follow_join(front, fleets.join))
            server.await_end()
        if front.is_loading:
            abandon("a deployment on workers that may never answer")
    return 0


def _describe(front: Front, url: str, grpc: str | None, options: ServeOptions) -> Reply:
    """What is told once all models answer."""
    payload: dict[str, Any] = {"url": url, "models": [model.name for model in front.models]}
    lines = [f"Serving:     {url}/v2/models/{name}" for name in front.names]
    if grpc is not None:
        payload["grpc"] = grpc
        lines.append(f"gRPC:        {grpc}")
    if options.page:
        payload["page"] = f"{url}/live/"
        lines.append(f"Live page:   {url}/live/, metrics at {url}/metrics")
    return Reply(payload, [*lines])


def _list_pages(sources: Sequence[_Source], front: Front) -> list[BaseRoute]:
    from partita.live.routes import served_routes  # takes the extra 'live'

    return served_routes({source.name: _view(source, front) for source in sources})


@contextlib.contextmanager
def _listen_for_grpc(address: str | None) -> Iterator[GrpcServer | None]:
    """What will answer gRPC calls at an address, if one is given.

    Raises:
        InputError: It cannot be listened at, or packages are missing.
    """
    if address is None:
        yield None
        return
    try:
        from partita.serve.grpc_service import GrpcServer  # takes the extra 'grpc'
    except ModuleNotFoundError as error:
        raise InputError(
            f"--grpc needs {error.name}: {how_to_install('grpc')}.", subject="--grpc"
        ) from error
    with contextlib.closing(GrpcServer(address)) as server:
        yield server


def _view(source: _Source, front: Front) -> LiveView:
    """What is seen of a model, whichever version answers."""

    def take(since: int) -> Sample:
        model = front.find(source.name)
        if model is None:
            raise RunError(f"Model '{source.name}' is not deployed.")
        return model.session.sample(since)

    def describe(plan_hash: str) -> Scene | None:
        known = (scenes.describe(plan_hash) for scenes in reversed(source.scenes))
        return next((scene for scene in known if scene is not None), None)

    return LiveView(take, describe)


class Fleets(contextlib.ExitStack):
    """The workers of each cluster file, reached, or emulated, once for all models.

    Attributes:
        join: The join file by which they are reached, if there is one.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._access = read_access(reading.access, leads=True)
        self.join = self._access.join
        self._open: dict[Path, OpenLeader] = {}

    def reach(self, file: Path, cluster: Cluster) -> contextlib.AbstractContextManager[Endpoint]:
        """One more leader's endpoint on the cluster of a file, as that and who is in are now."""
        key = file.resolve()
        if key not in self._open:
            say_where(cluster, self._access)
            self._open[key] = self.enter_context(open_fleet(cluster, self._access))
        return self._open[key](cluster)

    def find_outsiders(self, cluster: Cluster) -> dict[str, str]:
        """The cluster's devices whose workers nobody lets in now, each with why."""
        return find_outsiders(cluster, self._access)


@dataclass(frozen=True)
class _Source:
    """A file that is served under a name.

    Attributes:
        looks_ahead: Whether what would gain is found out before it is first served.
        scenes: What is known of the plans of its last version, and of the one before.
    """

    name: str
    file: Path
    is_plan: bool
    reading: Reading = field(repr=False)
    fleets: Fleets = field(repr=False)
    looks_ahead: bool = False
    scenes: list[Scenes] = field(default_factory=list, repr=False)

    @contextlib.contextmanager
    def open(self) -> Iterator[Session]:
        """Deploy what the file has now."""
        loaded, cost = self._read_plan() if self.is_plan else self._make_plan()
        leader = self.fleets.reach(loaded.files[2], loaded.cluster)
        outsiders = self.fleets.find_outsiders(loaded.cluster)
        with open_session(
            loaded,
            leader,
            cost,
            self.reading.adapting,
            outsiders=outsiders,
            is_service=True,
        ) as opened:
            opened.session.begin_traces()
            scenes = Scenes(loaded, opened.cost, opened.replanner, self.name)
            offer_scene(opened.session.calls, scenes.describe)
            if self.looks_ahead and not self.scenes:  # later, requests would wait for it
                say(f"'{self.name}': looking for what would gain")
                scenes.look_ahead()
            self.scenes[:] = [*self.scenes[-1:], scenes]
            yield opened.session

    def _read_plan(self) -> tuple[Loaded, CostModel]:
        reading = self.reading
        files = PlanFiles(
            self.file, None, reading.cluster, reading.shapes, reading.profiles, reading.estimator
        )
        loaded = read_plan(files)
        return loaded, read_cost(loaded.graph, loaded.cluster, files)

    def _make_plan(self) -> tuple[Loaded, CostModel]:
        """A plan for the model, and what everything costs."""
        reading = self.reading
        if self.file.suffix == ".toml":
            raise InputError(
                f"File '{self.file}' is a cluster file, as which --cluster takes it: serve a plan"
                " or a model.",
                subject=str(self.file),
            )
        if reading.cluster is None:
            raise InputError(
                f"File '{self.file}' is a model, not a plan: --cluster says what to plan for.",
                subject="--cluster",
            )
        files = ModelFiles(
            self.file, reading.cluster, reading.shapes, reading.profiles, reading.estimator
        )
        graph, cluster = read_model(files), load_cluster(reading.cluster)
        cost = read_cost(graph, cluster, files)
        options = make_options(reading.objective, None, reading.seed, reading.in_flight, None)
        if outsiders := self.fleets.find_outsiders(cluster):
            members = tuple(name for name in cluster.names if name not in outsiders)
            options = replace(options, devices=members)
        say(f"planning '{self.name}' for {reading.objective}")
        result = find_plan(cost, planner=reading.adapting.planner, options=options)
        rate = result.estimate.images_per_second
        say(f"'{self.name}': {format_seconds(result.latency_s)}, {rate:.3g} per second predicted")
        plan = name_sources(result.plan, self.file, reading.cluster, reading.shapes)
        files_of_plan = (self.file, self.file, reading.cluster)
        return Loaded(plan, planned_graph(graph, plan), cluster, files_of_plan), cost


def _read_source(text: str, reading: Reading, fleets: Fleets) -> _Source:
    """The file of a text ``FILE`` or ``NAME=FILE``.

    Raises:
        InputError: It cannot be read.
        PlanError: It looks like a plan, and is none.
    """
    name, sign, path = text.rpartition("=")
    file = Path(path)
    if name and not file.exists() and Path(text).exists():
        name, sign, file = "", "", Path(text)  # a file whose own name has such a sign
    if sign and not name:
        raise InputError(f"'{text}' gives no name; allowed: FILE, or NAME=FILE.", subject=text)
    is_plan = _starts_as_json(file)
    if not name:
        name = load_plan(file).model.name if is_plan else file.stem
    return _Source(name, file, is_plan, reading, fleets)


def _starts_as_json(file: Path) -> bool:
    """Whether a file is a plan rather than a model: no protocol buffer begins so."""
    with file.open("rb") as stream:
        return stream.read(64).lstrip()[:1] == b"{"


def _check_flags(sources: Sequence[_Source], reading: Reading) -> None:
    """Refuse flags that would be ignored, or fit one file of several only.

    Raises:
        InputError: Names the flag.
    """
    if all(source.is_plan for source in sources):
        for name in set(_OF_MODELS) & set(reading.given):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} is for models: a plan file has its own.", subject=flag)
    if len(sources) > 1:
        for flag, given in (("--profile", reading.profiles), ("--shape", reading.shapes)):
            if given:
                raise InputError(f"{flag} is of one model: serve that one alone.", subject=flag)
