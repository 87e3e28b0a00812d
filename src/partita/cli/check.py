"""``partita check``: is the divided network the whole one?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    DebugOpt,
    JsonOpt,
    PlanArg,
    PlanClusterOpt,
    PlanModelOpt,
    SeedOpt,
    ShapeOpt,
    from_to,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("check")
    def check(
        plan: PlanArg,
        inputs: Annotated[
            list[str] | None, typer.Option("--input", help="File, NAME=FILE, or directory.")
        ] = None,
        cases: Annotated[
            int,
            typer.Option(
                "--cases",
                callback=from_to(1, MOST_REQUESTS),
                help="Inputs to draw when none given.",
            ),
        ] = 3,
        seed: SeedOpt = 0,
        model: PlanModelOpt = None,
        cluster: PlanClusterOpt = None,
        shape: ShapeOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Compare divided and whole network at every stage boundary; exit code 4 if they differ."""
        from partita.cli.inputs import draw_inputs, read_inputs
        from partita.cli.output import print_reply
        from partita.cli.sources import read_plan

        loaded = read_plan(plan, model, cluster, shape)
        graph = loaded.graph
        specs = graph.input_specs
        feeds = read_inputs(specs, inputs) if inputs else draw_inputs(specs, cases, seed)
        return print_reply(check_cases(loaded, feeds), as_json=json)


def check_cases(loaded: Any, feeds: Any) -> Any:
    """Return the reply for some inputs."""
    from partita.cli.output import Reply, progress_bar
    from partita.compile import compile_plan
    from partita.exactness.compare import (
        check_exactness,
        compare_with_file,
        is_lossy,
        tolerance_of,
        tolerance_of_file,
    )

    compiled = compile_plan(loaded.graph, loaded.plan, loaded.cluster)
    with progress_bar("checking") as advance:
        found = check_exactness(loaded.graph, compiled, feeds, advance)
    worst = max(found, key=lambda one: one.relative)
    allowed = tolerance_of(loaded.graph)
    lossy = is_lossy(compiled.program)
    file = compare_with_file(loaded.graph, loaded.files[1], feeds)
    is_files = file.relative <= tolerance_of_file(loaded.graph)
    passed = worst.relative <= allowed and is_files
    payload = {
        "max_difference": worst.max_difference,
        "max_magnitude": worst.max_magnitude,
        "relative": worst.relative,
        "tensor": worst.tensor,
        "tolerance": allowed,
        "file_relative": file.relative,
        "lossy_transfers": lossy,
        "passed": passed,
        "cases": len(feeds),
        "tensors": len({one.tensor for one in found}),
    }
    verdict = (
        "passed" if passed else ("lossy transfers, as planned" if lossy and is_files else "FAILED")
    )
    lines = [
        f"Compared:    {len(feeds)} input(s), {payload['tensors']} tensors at stage boundaries",
        f"Difference:  {worst.max_difference:.2e} at most (tensor '{worst.tensor}', largest value"
        f" {worst.max_magnitude:.3g}, ratio {worst.relative:.1e}, allowed {allowed:g})",
        f"The file:    {file.max_difference:.2e} at most from the model file itself (ratio"
        f" {file.relative:.1e})",
        f"Result:      {verdict}",
    ]
    return Reply(payload, [*lines], exit_code=0 if passed or (lossy and is_files) else 4)
