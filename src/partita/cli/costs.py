"""From flags to costs: profiles, read or measured, and the model that prices with them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from partita.cli.flags import ModelFiles, PlanFiles
from partita.cli.output import cache_folder, progress_bar, say
from partita.cluster import THIS_MACHINE, Cluster
from partita.cost import CostModel
from partita.errors import InputError
from partita.files import make_folder
from partita.graph import Graph
from partita.plan import Plan
from partita.profile import MeasureOptions, Profile, load_profile, measure_profile, save_profile
from partita.units import format_bytes

#: Stands for this machine where profiles are named by device.
_ALL = "*"


def read_cost(graph: Graph, cluster: Cluster, files: ModelFiles | PlanFiles) -> CostModel:
    """The cost model; this machine is measured where the cluster needs it and no file has it.

    Raises:
        InputError: A profile's flag is not understood, or names no device of the cluster.
        ClusterError: A file is no profile.
    """
    named = split_profiles(files.profiles)
    for name, _ in named:
        if name not in (_ALL, *cluster.names):
            raise InputError(
                f"--profile {name}=… is of no device of cluster '{cluster.name}'; allowed:"
                f" {', '.join(cluster.names)}.",
                subject=name,
            )
    profiles = {name: load_profile(path) for name, path in named}
    needs_this = any(
        device.kind == THIS_MACHINE and device.profile is None and device.name not in profiles
        for device in cluster.entries
    )
    if needs_this and _ALL not in profiles:
        # Of the others it says nothing: they are priced by their kinds.
        profiles[THIS_MACHINE] = measure_this_machine(graph)
    cost = CostModel(graph, cluster, estimator=files.estimator, profiles=profiles)
    say_unmeasured(cost)
    return cost


def say_unmeasured(cost: CostModel) -> None:
    """Say whose integer kernels are priced as those of floats, if someone's are."""
    if cost.on_floats:
        say(
            f"integer kernels of {', '.join(cost.on_floats)} are priced as kernels of floats:"
            " 'partita profile --kernels integer' measures both"
        )


def split_profiles(texts: Sequence[str] | None) -> list[tuple[str, str]]:
    """Pairs of device and file, of flags ``DEVICE=FILE``; ``*`` where no device is named.

    Raises:
        InputError: A flag is neither FILE nor DEVICE=FILE.
    """
    pairs = []
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not (name and (path or not equals)):
            raise InputError(
                f"--profile '{text}' is not understood; allowed: FILE or DEVICE=FILE.", subject=text
            )
        pairs.append((name, path) if equals else (_ALL, text))
    return pairs


def profile_files(texts: Sequence[str] | None) -> list[str]:
    """The files that ``--profile`` flags name."""
    return [path for _, path in split_profiles(texts)]


def measure_this_machine(graph: Graph) -> Profile:
    """This machine's profile of the model: from the user's cache, else measured now.

    Of a quantised graph it is that of the one that it was made of.

    Raises:
        OSError: The cache cannot be written to.
    """
    graph = graph.base or graph
    path = cache_folder("profiles") / f"{graph.hash[:24]}.json"
    if path.exists():
        return load_profile(path)
    make_folder(path.parent)
    options = MeasureOptions(repeats=9, budget_s=0.3)
    with progress_bar("measuring this machine") as advance:
        profile = measure_profile(graph, options, advance)
    save_profile(profile, path)
    return profile


def allow_in_flight(plan: Plan, cost: CostModel, in_flight: int | None) -> Plan:
    """A plan that lets so many requests be under way, also more than it was made for.

    Raises:
        InputError: A device has no memory for the pieces of so many.
    """
    if in_flight is None or in_flight <= plan.in_flight:
        return plan
    wider = _with_in_flight(plan, in_flight)
    used = {name: use.total for name, use in cost.memory(cost.layout(wider)).items()}
    for name in cost.cluster.overflow_bytes(used, swap=plan.may_swap):
        raise InputError(
            f"--in-flight is {in_flight}: device '{name}' needs {format_bytes(used[name])} for so"
            f" many requests, it has {format_bytes(cost.cluster.device(name).memory_bytes)}. The"
            f" plan was made for {plan.in_flight}.",
            subject="--in-flight",
        )
    return wider


def _with_in_flight(plan: Plan, in_flight: int) -> Plan:
    fallback = None if plan.fallback is None else _with_in_flight(plan.fallback, in_flight)
    return msgspec.structs.replace(plan, in_flight=in_flight, fallback=fallback)
