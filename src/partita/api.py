"""The library in one place: what ``import partita as pt`` offers beyond the packages' own names."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from partita.adapting.finder import make_finder
from partita.adapting.replanner import Replanner
from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan
from partita.cost import CostModel
from partita.errors import ClusterError, LinkError, PlanError
from partita.exactness.accuracy import Judge
from partita.execution import AdaptOptions, Report
from partita.execution.adapt import LOSSES_ONLY
from partita.fabric import Endpoint, TlsOptions, ZenohEndpoint, ZenohOptions
from partita.fabric.absence import explain_nobody
from partita.fabric.join import read_join
from partita.fabric.members import secure_address
from partita.graph import Graph
from partita.lab import start_lab
from partita.lab.on_ray import RayOptions, place_on_ray
from partita.leader import DeployOptions, Session
from partita.leader import deploy as deploy_compiled
from partita.leader.recovery import ReplanWithout
from partita.leader.substitutes import Substitutes
from partita.plan import Plan
from partita.quantisation import QuantisationData
from partita.report.tables import describe_change
from partita.simulation import predict
from partita.units import format_seconds

#: Opens the endpoint of one more leader, on a cluster as its file is now.
OpenLeader = Callable[[Cluster], contextlib.AbstractContextManager[Endpoint]]
#: Seconds of a search after a loss, as requests may wait. Not tuned.
_LOSS_BUDGET_S = 0.5


@dataclass(frozen=True)
class Access:
    """How a leader reaches workers.

    Attributes:
        workers: Whether running workers are used; by default where a device has an address.
        insecure: Reach workers beyond this machine without credentials.
        tls: Certificate files, where the workers ask for them.
        join: File from ``partita keys``, which has all credentials; running workers are used.
        on_ray: Have workers placed and started by Ray.
        site: Folder from ``partita keys init`` whose join files these get.
    """

    workers: bool | None = None
    insecure: bool = False
    tls: TlsOptions | None = None
    join: Path | None = None
    on_ray: bool = False
    site: Path | None = None


def simulate(
    plan: Plan, cost: CostModel, *, requests: int = 1, in_flight: int | None = None
) -> Report:
    """The predicted run of a plan.

    Args:
        in_flight: Most requests at the same time; the plan's own number by default.
    """
    return predict(cost, plan, requests=requests, in_flight=in_flight)


@dataclass(frozen=True)
class Adapt:
    """That a session is to change its plan when links or devices change, and how.

    Attributes:
        cost: What the plan was made with.
        quantisation: What samples say, for planners that choose bits anew; the plan's own stay
            without.
        judge: Says which are accurate enough; by default those whose errors are no larger in sum.
        options: When to plan anew, and when to believe in the result.
    """

    cost: CostModel
    planner: str = "best"
    budget_s: float = 3.0
    quantisation: QuantisationData | None = None
    judge: Judge | None = None
    options: AdaptOptions = field(default_factory=AdaptOptions)


@contextlib.contextmanager
def deploy(
    plan: Plan,
    graph: Graph,
    cluster: Cluster,
    access: Access | None = None,
    *,
    adapt: Adapt | None = None,
    recover: bool = False,
    instead: Mapping[str, tuple[Graph, Plan]] | None = None,
) -> Iterator[Session]:
    """Deploy a plan and yield the session that runs it.

    Running workers are used where the cluster gives addresses; otherwise the cluster is emulated on
    this machine, with one worker process per device. Traces of emulated links begin when the
    session is there; :meth:`Session.begin_traces` lets them begin anew. Where the plan has a
    fallback, that goes on when other devices are lost.

    Args:
        adapt: Whether and how the plan changes during the session; None keeps it.
        recover: Whether the session goes on without devices and links that are lost, and uses
            devices that come, or come back. Who plans then, ``adapt`` says; without it drifts are
            no reason to, and devices are priced by their kinds and profiles in ``cluster``.
        instead: By device, what goes on when it is lost: another network of the same inputs and
            outputs, and its plan on other devices. It is compiled at once, and sent after the loss.

    Raises:
        PlanError: The plan cannot be compiled for the cluster, or does not go with ``instead``.
        RunError: A worker is missing, refuses or fails.
    """
    compiled = compile_plan(graph, plan, cluster)
    fallback = None if plan.fallback is None else compile_plan(graph, plan.fallback, cluster)
    if recover and adapt is None:
        adapt = Adapt(CostModel(graph, cluster), budget_s=_LOSS_BUDGET_S, options=LOSSES_ONLY)
    planning = None if adapt is None else _make_replanner(plan, adapt)
    others = {name: compile_plan(*other, cluster) for name, other in (instead or {}).items()}
    replan = _choose_replan(compiled, planning, fallback, others, recover=recover)
    with (
        open_endpoint(cluster, access, ()) as endpoint,
        deploy_compiled(
            compiled,
            endpoint,
            _describe(plan, adapt),
            gone=find_outsiders(cluster, access or Access()),
            replan=replan,
            adapting=None if adapt is None or planning is None else (planning, adapt.options),
            standby=fallback,
        ) as session,
    ):
        session.begin_traces()
        yield session


def _describe(plan: Plan, adapt: Adapt | None) -> DeployOptions:
    reference_s = adapt.cost.reference_s if adapt is not None else 0.0
    return DeployOptions(planner=plan.planner, seed=plan.seed, reference_s=reference_s)


def _choose_replan(
    compiled: Compiled,
    planning: Replanner | None,
    fallback: Compiled | None,
    others: Mapping[str, Compiled],
    *,
    recover: bool,
) -> ReplanWithout | None:
    """What is asked when something is lost; None where that is the end.

    Raises:
        PlanError: There are others for lost devices, which cannot go on, or who plans anew.
    """
    if others:
        if planning is not None or fallback is not None:
            raise PlanError("What goes on instead is given: without recover, adapt and a fallback.")
        return Substitutes(compiled.program, others)
    if not recover and fallback is None:
        return None
    return planning.recover if planning is not None else lambda lost: _known(fallback)


def _known(fallback: Compiled | None) -> Compiled:
    assert fallback is not None
    return fallback


def _make_replanner(plan: Plan, adapt: Adapt) -> Replanner:
    finder = make_finder(
        plan,
        adapt.planner,
        adapt.budget_s,
        quantisation=adapt.quantisation,
        judge=adapt.judge,
    )
    return Replanner(adapt.cost, plan, finder)


@contextlib.contextmanager
def open_endpoint(
    cluster: Cluster, access: Access | None = None, needed: Iterable[str] | None = None
) -> Iterator[Endpoint]:
    """Yield a leader's endpoint that reaches the cluster's workers, emulated ones if need be.

    Args:
        needed: Devices that have to be members where there is a join file; all by default.

    Raises:
        ClusterError: One of them is no member, or the join file cannot work.
    """
    access = access or Access()
    check_members(cluster.names if needed is None else needed, find_outsiders(cluster, access))
    with open_fleet(cluster, access) as open_leader, open_leader(cluster) as endpoint:
        yield endpoint


@contextlib.contextmanager
def open_fleet(cluster: Cluster, access: Access | None = None) -> Iterator[OpenLeader]:
    """Yield what opens endpoints of leaders that reach the cluster's workers.

    A join file is read for each of them, so that one that has changed holds from the next on; so
    does another cluster. Workers that are emulated, or placed by Ray, end with the context, and
    stay those of the first one.
    """
    access = access or Access()
    with contextlib.ExitStack() as stack:
        if access.on_ray:
            options = RayOptions(access.site, access.insecure)
            cluster = stack.enter_context(place_on_ray(cluster, options)).cluster
        way = find_way(cluster, access)
        if way is None:
            lab = stack.enter_context(start_lab(cluster))
            yield lambda _: contextlib.closing(lab.open_leader(_draw_name()))
            return

        def open_one(known: Cluster) -> contextlib.AbstractContextManager[Endpoint]:
            placed = cluster if access.on_ray else known
            now = find_way(placed, access) or way
            return _open_leader(now, find_addresses(placed, access))

        yield open_one


@contextlib.contextmanager
def _open_leader(way: ZenohOptions, addresses: Mapping[str, str]) -> Iterator[Endpoint]:
    """Yield an endpoint; where nobody at all is reached, the error says why.

    Args:
        addresses: Where workers should be, by name.
    """
    options = replace(way, name=_draw_name(way.name))
    with contextlib.closing(ZenohEndpoint(options)) as endpoint:
        try:
            yield endpoint
        except LinkError as error:
            if endpoint.peers() or not (why := explain_nobody(addresses, way.cluster, way.tls)):
                raise
            short = error.message.partition(". ")[0].rstrip(".")
            raise LinkError(f"{short}. {why}", device=error.device) from error


def _draw_name(name: str = "leader") -> str:
    """A process's name: several leaders may use one cluster at the same time."""
    return f"{name}-{secrets.token_hex(4)}"


def find_way(cluster: Cluster, access: Access) -> ZenohOptions | None:
    """How leaders join the cluster's workers, under names with more to them; None: emulate them.

    Raises:
        ClusterError: The join file cannot work, or is not for a leader or front of this cluster.
    """
    addresses = find_addresses(cluster, access)
    uses_workers = bool(addresses) or access.join is not None
    if not (uses_workers if access.workers is None else access.workers):
        return None
    join = None if access.join is None else read_join(access.join)
    options = ZenohOptions(
        "leader" if join is None else join.name,
        cluster.name,
        connect=tuple(addresses.values()),
        multicast=not set(cluster.names) <= addresses.keys(),
        tls=access.tls,
        insecure=access.insecure,
    )
    if join is None:
        return options
    path = str(access.join)
    if (role := join.member.role) in ("worker", "router"):
        raise _unfit(path, f"is a {role}'s, {join.name!r}", "a leader's, or a front's to look only")
    if join.cluster != cluster.name:
        raise _unfit(path, f"is for cluster {join.cluster!r}", f"one of {cluster.name!r}")
    options = replace(options, connect=(*options.connect, *join.routers))
    return join.apply(options, path)


def find_outsiders(cluster: Cluster, access: Access) -> dict[str, str]:
    """The cluster's devices whose workers nobody lets in, each with why, by the join file.

    Raises:
        ClusterError: The join file cannot work, or is not for a leader or front of this cluster.
    """
    way = find_way(cluster, access)
    if way is None or not way.members:
        return {}
    members = {member.name for member in way.members if member.is_worker}
    why = f"it is no member by join file '{access.join}' (revoked, or never let in)"
    return {name: why for name in cluster.names if name not in members}


def check_members(needed: Iterable[str], outsiders: Mapping[str, str]) -> None:
    """Refuse devices whose workers nobody lets in.

    Args:
        outsiders: See :func:`find_outsiders`.

    Raises:
        ClusterError: Names the first one, and why.
    """
    for name in needed:
        if name in outsiders:
            raise ClusterError(
                f"Device {name!r} cannot be used: {outsiders[name]}. Leave it out of the plan or"
                " the cluster file, or go on without it by --recover; partita keys show says who is"
                " in.",
                subject=name,
            )


def find_addresses(cluster: Cluster, access: Access) -> dict[str, str]:
    """Where the cluster's workers listen, by device, and strangers, as far as files say.

    Raises:
        ClusterError: The join file cannot work.
    """
    told = {device.name: device.address for device in cluster.devices if device.address}
    if access.join is None:
        return told
    join = read_join(access.join)
    members = {m.name: m.address for m in join.members if m.is_worker and m.address}
    secure = {name: secure_address(address) for name, address in told.items()}
    return {
        name: address
        for name, address in {**members, **secure}.items()
        if name in cluster.names or cluster.strangers is not None
    }


def _unfit(path: str, what: str, needed: str) -> ClusterError:
    return ClusterError(f"Join file '{path}' {what}: needed is {needed}.", subject=path)


@dataclass(frozen=True)
class Comparison:
    """A predicted and a measured run; as text, one line."""

    predicted: Report
    measured: Report

    @property
    def error(self) -> float:
        """Measured over predicted median latency, less 1."""
        return self.measured.quantile_s(0.5) / self.predicted.quantile_s(0.5) - 1

    def __str__(self) -> str:
        predicted_s, measured_s = self.predicted.quantile_s(0.5), self.measured.quantile_s(0.5)
        change = describe_change(predicted_s, measured_s)
        return (
            f"latency {format_seconds(measured_s)} measured,"
            f" {format_seconds(predicted_s)} predicted ({change})"
        )


def compare(predicted: Report, measured: Report) -> Comparison:
    """The two runs side by side."""
    return Comparison(predicted, measured)
