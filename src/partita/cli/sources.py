"""From flags to objects: shapes, models, plans with what they are for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from partita.cli.flags import ModelFiles, PlanFiles
from partita.cluster import Cluster, list_differences, load_cluster
from partita.compile import check_plan, planned_graph
from partita.errors import ClusterError, InputError, PartitaError, PlanError
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.plan import Identity, Plan, load_plan
from partita.quantisation.bits import check_quantisable

_SHAPE = re.compile(r"^(?P<name>.+)=(?P<dims>\d+(?:x\d+)*)$")


@dataclass(frozen=True)
class Loaded:
    """A plan with what it is for."""

    plan: Plan
    graph: Graph
    cluster: Cluster
    files: tuple[Path, Path, Path]

    @property
    def title(self) -> str:
        """A heading: which model on which cluster."""
        return f"{self.graph.name} on {self.cluster.name}"


def parse_shapes(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Shapes by input name.

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
    """``KEY=VALUE`` flags as a mapping.

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


def read_graph(path: Path, shapes: Sequence[str] | None = None, *, optimise: bool = True) -> Graph:
    """The graph of an ONNX file with its free dimensions fixed."""
    return load_graph(path, shapes=parse_shapes(shapes), optimise=optimise)


def read_model(files: ModelFiles, *, chooses_bits: bool = False) -> Graph:
    """The graph to plan for, with as many bits as its file says, if one is given.

    Args:
        chooses_bits: Whether the planner quantises it, for the kernels that are named.

    Raises:
        InputError: That is no file of bits, the model cannot be quantised, or kernels are named
            that there are not.
        PlanError: Its bits do not fit the model.
    """
    graph = read_graph(files.model, files.shapes)
    if files.bits is not None:
        from partita.quantisation import quantize
        from partita.quantisation.file import load_findings

        graph = quantize(graph, load_findings(files.bits).bits)
    if chooses_bits:
        check_quantisable(graph)
    if files.kernels not in (None, "integer", "float"):
        raise InputError(
            f"--kernels is '{files.kernels}', allowed: integer, float.", subject=files.kernels
        )
    if files.kernels is None or graph.integer == (files.kernels == "integer"):
        return graph
    if not graph.packings:
        if chooses_bits:
            return graph
        raise InputError(
            f"--kernels integer: no layer of model '{graph.name}' is quantised. Give --bits, a"
            " quantised model, or --samples for a planner that chooses bits.",
            subject=files.kernels,
        )
    return with_kernels(graph, integer=not graph.integer)


def read_plan(files: PlanFiles) -> Loaded:
    """A checked plan with its graph and cluster, from the flags or from where it names them.

    Raises:
        PlanError: The plan does not say where they are and no flag does, or it is not for them.
    """
    plan = load_plan(files.plan)
    model, shapes = _find_model(files, plan)
    graph = read_graph(model, shapes)
    cluster_file = _find(files.plan, plan.cluster, files.cluster, "--cluster")
    cluster = load_cluster(cluster_file)
    if plan.cluster.hash != cluster.hash:
        raise _refuse_cluster(files.plan, plan.cluster, cluster, cluster_file)
    try:
        graph = planned_graph(graph, plan)
        check_plan(graph, plan, cluster)
        if plan.options is not None:
            from partita.planners.find import check_options  # SciPy: 'inspect' needs none
            from partita.planners.options import options_of

            check_options(options_of(plan), graph, cluster)
    except (PlanError, ClusterError) as error:
        raise PlanError(f"Plan file '{files.plan}': {error}", subject=str(files.plan)) from error
    scaled = cluster.with_time_scale(files.time_scale)
    return Loaded(plan, graph, scaled, (files.plan, model, cluster_file))


def _refuse_cluster(
    plan_file: Path, planned_for: Identity, cluster: Cluster, cluster_file: Path
) -> PlanError:
    """Says what differs from the cluster that the plan was made for, and what to do."""
    file, original = Path(planned_for.path), None
    with contextlib.suppress(PartitaError):
        file = _find(plan_file, planned_for, None, "--cluster")
        original = load_cluster(file)
    if original is not None and original.hash == planned_for.hash:
        first, *rest = list_differences(original, cluster)
        more = f" (and {len(rest)} more)" if rest else ""
        words = f"not of '{cluster_file}': {first}{more}. Give --cluster {file}"
    else:
        words = (
            f"which is not what '{cluster_file}' says now: other devices, kinds, links or"
            " requester. Give the file that it was made with"
        )
    made_with = f" of '{file}'" if planned_for.path else ""
    return PlanError(
        f"Plan file '{plan_file}': it is for cluster '{planned_for.name}'{made_with}, {words}, or"
        " plan anew.",
        subject=str(plan_file),
    )


def _find_model(files: PlanFiles, plan: Plan) -> tuple[Path, list[str]]:
    """The plan's model and its shapes; those that the plan was made with are in its name."""
    source, _, fixed = plan.model.path.partition("?")
    identity = msgspec.structs.replace(plan.model, path=source)
    shapes = list(files.shapes or ()) or [text for text in fixed.split("&") if text]
    return _find(files.plan, identity, files.model, "--model"), shapes


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
    """The plan with the files that it was made from, for later commands."""
    fixed = "?" + "&".join(shapes) if shapes else ""
    return msgspec.structs.replace(
        plan,
        model=msgspec.structs.replace(plan.model, path=f"{model}{fixed}"),
        cluster=msgspec.structs.replace(plan.cluster, path=str(cluster)),
    )
