"""From flags to objects: models, clusters, profiles, plans and costs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from partita.cli.output import progress_bar
from partita.cluster import THIS_MACHINE, Cluster, load_cluster
from partita.errors import InputError, PlanError
from partita.graph import Graph, load_graph
from partita.plan import Identity, Plan, load_plan

# Costs and profiles load SciPy, which takes longer than what some verbs do without it.
if TYPE_CHECKING:
    from partita.cost import CostModel
    from partita.profile import Profile

_SHAPE = re.compile(r"^(?P<name>.+)=(?P<dims>\d+(?:x\d+)*)$")


@dataclass(frozen=True)
class Loaded:
    """A plan with what it is for, and the files that all this came from."""

    plan: Plan
    graph: Graph
    cluster: Cluster
    files: tuple[Path, ...]


def parse_shapes(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Return shapes by input name.

    Raises:
        InputError: One is not of the form NAME=1x3x224x224.
    """
    shapes = {}
    for text in given or ():
        match = _SHAPE.match(text)
        if match is None:
            raise InputError(
                f"--shape '{text}' is not understood; allowed: NAME=1x3x224x224.", subject=text
            )
        shapes[match["name"]] = tuple(int(extent) for extent in match["dims"].split("x"))
    return shapes


def parse_pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    """Return ``KEY=VALUE`` flags as a mapping.

    Raises:
        InputError: One has no ``=`` or nothing on a side of it.
    """
    pairs = {}
    for text in given or ():
        key, _, value = text.partition("=")
        if not key or not value:
            raise InputError(
                f"{flag} '{text}' is not understood; allowed: KEY=VALUE.", subject=text
            )
        pairs[key] = value
    return pairs


def read_graph(path: Path, shapes: Sequence[str] | None = None) -> Graph:
    """Return the graph of an ONNX file with its free dimensions fixed."""
    return load_graph(path, shapes=parse_shapes(shapes))


def read_cost(
    graph: Graph, cluster: Cluster, profiles: Sequence[str] | None, estimator: str
) -> CostModel:
    """Return a cost model; this machine is measured where the cluster needs it and no file does."""
    from partita.cost import CostModel

    for name, _ in split_profiles(profiles):
        if name != "*" and name not in cluster.names:
            raise InputError(
                f"--profile {name}=… is of no device of cluster '{cluster.name}'; allowed:"
                f" {', '.join(cluster.names)}.",
                subject=name,
            )
    given = read_profiles(profiles)
    needs_this = any(
        device.kind == THIS_MACHINE and device.profile is None and device.name not in given
        for device in cluster.devices
    )
    if needs_this and "*" not in given:
        given["*"] = measure_this_machine(graph)
    return CostModel(graph, cluster, estimator=estimator, profiles=given)


def read_profiles(given: Sequence[str] | None) -> dict[str, Profile]:
    """Return profiles by device name; ``*`` stands for this machine.

    Raises:
        InputError: A flag is neither FILE nor DEVICE=FILE.
        ClusterError: A file is no profile.
    """
    from partita.profile import load_profile

    return {name: load_profile(path) for name, path in split_profiles(given)}


def split_profiles(given: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return pairs of device and file; ``*`` where no device is given.

    Raises:
        InputError: A flag is neither FILE nor DEVICE=FILE.
    """
    pairs = []
    for text in given or ():
        name, equals, path = text.partition("=")
        if not (name and (path or not equals)):
            raise InputError(
                f"--profile '{text}' is not understood; allowed: FILE or DEVICE=FILE.", subject=text
            )
        pairs.append((name, path) if equals else ("*", text))
    return pairs


def profile_files(given: Sequence[str] | None) -> list[str]:
    """Return the files that ``--profile`` flags name."""
    return [path for _, path in split_profiles(given)]


def measure_this_machine(graph: Graph) -> Profile:
    """Return this machine's profile of the model: from the user's cache, else measured now."""
    from partita.profile import MeasureOptions, load_profile, measure_profile, save_profile

    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = base / "partita" / "profiles" / f"{graph.hash[:24]}.json"
    if path.exists():
        return load_profile(path)
    options = MeasureOptions(repeats=9, budget_s=0.3)
    with progress_bar("measuring this machine") as advance:
        profile = measure_profile(graph, options, advance)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_profile(profile, path)
    return profile


def read_plan(
    path: Path, model: Path | None, cluster: Path | None, shapes: Sequence[str] | None = None
) -> Loaded:
    """Return a checked plan with its graph and cluster, from the flags or from where it names them.

    Raises:
        PlanError: The plan does not say where they are and no flag does, or it is not for them.
    """
    from partita.compile import check_plan

    plan = load_plan(path)
    source, wanted = _find_model(path, plan, model, shapes)
    graph = read_graph(source, wanted)
    described = _find(path, plan.cluster, cluster, "--cluster")
    lab = load_cluster(described)
    try:
        check_plan(graph, plan, lab)
    except PlanError as error:
        raise PlanError(f"Plan file '{path}': {error}", subject=str(path)) from error
    return Loaded(plan, graph, lab, (path, source, described))


def _find_model(
    path: Path, plan: Plan, model: Path | None, shapes: Sequence[str] | None
) -> tuple[Path, list[str]]:
    """Return the plan's model and its shapes; those that the plan was made with are in its name."""
    source, _, fixed = plan.model.path.partition("?")
    identity = msgspec.structs.replace(plan.model, path=source)
    wanted = list(shapes or ()) or [text for text in fixed.split("&") if text]
    return _find(path, identity, model, "--model"), wanted


def _find(plan_file: Path, identity: Identity, given: Path | None, flag: str) -> Path:
    if given is not None:
        return given
    if not identity.path:
        raise PlanError(
            f"Plan file '{plan_file}' does not say where '{identity.name}' is: give {flag}.",
            subject=flag,
        )
    named = Path(identity.path)
    beside = plan_file.parent / named
    return beside if not _exists(named) and _exists(beside) else named


def _exists(path: Path) -> bool:
    """Whether a file is there; a text that can be no path names none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def name_sources(plan: Plan, model: Path, cluster: Path, shapes: Sequence[str] | None) -> Plan:
    """Return the plan with the files that it was made from, for later commands."""
    fixed = "?" + "&".join(shapes) if shapes else ""
    return msgspec.structs.replace(
        plan,
        model=msgspec.structs.replace(plan.model, path=f"{model}{fixed}"),
        cluster=msgspec.structs.replace(plan.cluster, path=str(cluster)),
    )


def swap_pairs(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return the mapping the other way round: ``DEVICE=TENSOR`` flags become tensor to device."""
    return {value: key for key, value in pairs.items()}
