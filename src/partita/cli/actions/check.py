"""Comparing the divided network with the whole one."""

from __future__ import annotations

from functools import partial

from partita.cli.flags import PlanFiles, RequestFlags
from partita.cli.inputs import get_requests
from partita.cli.output import Reply, progress_bar
from partita.cli.sources import read_plan
from partita.compile import compile_plan
from partita.exactness.compare import (
    check_exactness,
    compare_with_file,
    is_lossy,
    tolerance_of,
    tolerance_of_file,
)
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
    compiled = compile_plan(graph, loaded.plan, loaded.cluster)
    lossy = is_lossy(compiled.program)
    probe = None if lossy else partial(compile_plan, graph, loaded.plan, loaded.cluster)
    with progress_bar("checking") as advance:
        differences = check_exactness(graph, compiled, feeds, advance, probe)
    worst = max(differences, key=lambda difference: difference.relative)
    tolerance = tolerance_of(graph)
    del compiled  # its weights are no longer needed, and may be copies
    file = compare_with_file(graph, loaded.files[1], feeds)
    is_files = file.is_within(tolerance_of_file(graph))
    passed = worst.is_within(tolerance) and is_files
    payload = {
        "max_difference": worst.max_difference,
        "max_magnitude": worst.max_magnitude,
        "scale": worst.max_magnitude if worst.scale is None else worst.scale,
        "relative": worst.relative,
        "tensor": worst.tensor,
        "tolerance": tolerance,
        "file_relative": file.relative,
        "non_finite": file.non_finite,
        "lossy_transfers": lossy,
        "passed": passed,
        "cases": len(feeds),
        "tensors": len({difference.tensor for difference in differences}),
    }
    is_lossy_only = lossy and is_files and worst.is_measured
    verdict = "passed" if passed else "lossy transfers, as planned" if is_lossy_only else "FAILED"
    lines = [
        f"Compared:    {len(feeds)} input(s), {payload['tensors']} tensors at stage boundaries",
        f"Difference:  {worst.max_difference:.2e} at most (tensor '{worst.tensor}', largest value"
        f" {worst.max_magnitude:.3g}, ratio {worst.relative:.1e}, allowed {tolerance:g})",
        f"The file:    {file.max_difference:.2e} at most from the model file itself (ratio"
        f" {file.relative:.1e})",
    ]
    if told := describe_non_finite(file.non_finite, worst.is_measured and file.is_measured):
        lines.append(f"Not finite:  {told}")
    lines.append(f"Result:      {verdict}")
    return Reply(payload, [*lines], exit_code=4 if verdict == "FAILED" else 0)
