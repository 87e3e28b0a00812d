"""Comparing the divided network with the whole one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from partita.cli.flags import PlanFiles, RequestFlags
from partita.cli.inputs import get_requests
from partita.cli.output import Advance, Reply, progress_bar
from partita.cli.replies import BITS_ASIDE
from partita.cli.sources import Loaded, read_plan
from partita.cluster import Cluster
from partita.compile import compile_plan, float_plan
from partita.exactness.compare import (
    Difference,
    check_exactness,
    compare_with_file,
    is_lossy,
    tolerance_of,
    tolerance_of_file,
)
from partita.graph import Graph
from partita.plan import Plan
from partita.quantisation.samples import Feeds
from partita.report.bundle import describe_non_finite


def check_division(files: PlanFiles, requests: RequestFlags) -> Reply:
    """Compare a plan's network with the whole model and its file; exit code 4 if they differ.

    Raises:
        InputError: An input cannot be used.
        ModelError: The engine cannot run the file.
        PlanError: The plan is not for this model and cluster.
    """
    loaded = read_plan(files)
    graph = loaded.graph
    feeds = get_requests(graph.input_specs, requests)
    with progress_bar("checking") as advance:
        differences, lossy = _check(graph, loaded.plan, loaded.cluster, feeds, advance)
    worst = max(differences, key=lambda difference: difference.relative)
    tolerance = tolerance_of(graph)
    file = compare_with_file(graph, loaded.files[1], feeds)
    is_files = file.is_within(tolerance_of_file(graph))
    bare = _check_without_bits(loaded, feeds, worst)
    passed = worst.is_within(tolerance) and is_files and bare.is_within(tolerance)
    tensors = len({difference.tensor for difference in differences})
    payload = {
        "max_difference": worst.max_difference,
        "max_magnitude": worst.max_magnitude,
        "scale": worst.max_magnitude if worst.scale is None else worst.scale,
        "relative": worst.relative,
        "tensor": worst.tensor,
        "tolerance": tolerance,
        "file_relative": file.relative,
        "float_relative": bare.relative,
        "non_finite": file.non_finite,
        "lossy_transfers": lossy,
        "passed": passed,
        "cases": len(feeds),
        "tensors": tensors,
    }
    is_lossy_only = lossy and is_files and worst.is_measured
    verdict = "passed" if passed else "lossy transfers, as planned" if is_lossy_only else "FAILED"
    lines = [
        f"Compared:    {len(feeds)} input(s), {tensors} tensors at stage boundaries",
        *_show_differences(worst, file, None if graph.base is None else bare, tolerance),
    ]
    if told := describe_non_finite(file.non_finite, worst.is_measured and file.is_measured):
        lines.append(f"Not finite:  {told}")
    lines.append(f"Result:      {verdict}")
    return Reply(payload, [*lines], exit_code=4 if verdict == "FAILED" else 0)


def _check(
    graph: Graph, plan: Plan, cluster: Cluster, feeds: Sequence[Feeds], advance: Advance
) -> tuple[list[Difference], bool]:
    """The differences of a divided network, and whether a transfer rounds."""
    compiled = compile_plan(graph, plan, cluster)
    lossy = is_lossy(compiled.program)
    probe = None if lossy else partial(compile_plan, graph, plan, cluster)
    return check_exactness(graph, compiled, feeds, advance, probe), lossy


def _check_without_bits(loaded: Loaded, feeds: Sequence[Feeds], worst: Difference) -> Difference:
    """The largest difference of the same division without bits; ``worst`` where there are none.

    Where a number lies between two steps nobody can say which it is: one step is allowed then, by
    which a fault of the division might hide.
    """
    base = loaded.graph.base
    if base is None:
        return worst
    plan = float_plan(base, loaded.plan)
    with progress_bar("checking without bits") as advance:
        differences, _ = _check(base, plan, loaded.cluster, feeds, advance)
    return max(differences, key=lambda difference: difference.relative)


def _show_differences(
    worst: Difference, file: Difference, bare: Difference | None, tolerance: float
) -> list[str]:
    """A line for each comparison; ``bare`` is the one without bits, where the plan has some."""
    in_bits = bare is not None
    beside = " from the network in these bits" if in_bits else ""
    aside = " the network without bits to" if in_bits else ""
    lines = [
        f"Difference:  {worst.max_difference:.2e} at most{beside} (tensor '{worst.tensor}', largest"
        f" value {worst.max_magnitude:.3g}, ratio {worst.relative:.1e}, allowed {tolerance:g})",
        f"The file:    {file.max_difference:.2e} at most from{aside} the model file itself (ratio"
        f" {file.relative:.1e})",
    ]
    if bare is not None:
        lines.append(
            f"No bits:     {bare.max_difference:.2e} at most in the same division (ratio"
            f" {bare.relative:.1e}, allowed {tolerance:g})"
        )
        lines.append(BITS_ASIDE)
    return lines
