"""``partita load``: child models, from file to first answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli import load_measure, load_split, personalise
from partita.cli.flags import DebugOpt, JsonOpt, SeedOpt, from_to, refuse_given

BundleArg = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="Folder from 'partita load split'.")
]
SchemeOpt = Annotated[
    str | None, typer.Option("--scheme", help="Name of the scheme; the first that fits by default.")
]


def register(app: typer.Typer) -> None:
    """Add the verb and its own verbs."""
    load = typer.Typer(
        name="load",
        help="Child models: load in parts, and answer before all is loaded.",
        rich_markup_mode=None,
    )
    app.add_typer(load)
    load_split.register(load)
    _register_run(load)
    _register_show(load)
    load_measure.register(load)
    personalise.register(load)


def _register_run(app: typer.Typer) -> None:
    @app.command("run")
    def run(
        context: typer.Context,
        bundle: BundleArg,
        inputs: Annotated[
            list[str] | None, typer.Option("--input", help="File, NAME=FILE, or directory.")
        ] = None,
        scheme: SchemeOpt = None,
        threads: Annotated[
            int | None,
            typer.Option("--threads", callback=from_to(1, 256), help="Within one operator."),
        ] = None,
        loaders: Annotated[
            int | None,
            typer.Option(
                "--loaders", callback=from_to(1, 256), help="Children that load at a time."
            ),
        ] = None,
        read_ahead: Annotated[
            bool, typer.Option("--read-ahead/--no-read-ahead", help="Of the weights.")
        ] = True,
        requests: Annotated[
            int,
            typer.Option("--requests", callback=from_to(1, 10**6), help="When no input is given."),
        ] = 10,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="File for the outputs (.npz).")
        ] = None,
        seed: SeedOpt = 0,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Answer requests from a bundle, the first one while it loads."""
        from partita.cli.inputs import get_requests, input_files
        from partita.cli.output import check_output, print_reply
        from partita.loading import choose_scheme, read_manifest

        if inputs:
            refuse_given(context, ("seed",), "does not go with --input: nothing is drawn")
        check_output(output, *input_files(inputs or ()), inside=bundle)
        specs = choose_scheme(read_manifest(bundle), bundle, scheme).program.inputs
        feeds = get_requests(context, specs, inputs, requests, seed)
        options = {"scheme": scheme, "threads": threads, "loaders": loaders}
        found = run_bundle(bundle, feeds, options | {"read_ahead": read_ahead})
        if output is not None:
            write_answers(output, found["answers"])
        reply = describe_run(found)
        if output is not None:
            reply.shown.append(f"Written to {output}")
        return print_reply(reply, as_json=json)


def _register_show(app: typer.Typer) -> None:
    @app.command("show")
    def show(
        bundle: BundleArg,
        verify: Annotated[
            bool, typer.Option("--verify/--no-verify", help="Compare all files with their hashes.")
        ] = True,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Say what a bundle holds, and whether it is as it was written."""
        from partita.cli.output import print_reply
        from partita.loading import read_manifest, verify_bundle

        manifest = read_manifest(bundle)
        if verify:
            verify_bundle(bundle, manifest)
        reply = load_split.describe_bundle(manifest, bundle)
        reply.payload["verified"] = verify
        if verify:
            reply.shown.append("Intact: all files are what the manifest says.")
        return print_reply(reply, as_json=json)


def run_bundle(bundle: Path, feeds: list[dict[str, Any]], options: dict[str, Any]) -> Any:
    """Return the answers, and how long the first and the others took, in seconds."""
    import time

    from partita.loading import load_bundle

    began_s = time.perf_counter()
    with load_bundle(bundle, **options) as session:
        answers: list[Any] = []
        ends_s: list[float] = []
        marks: list[Any] = []
        for feed in feeds:
            start_s = time.perf_counter() if answers else began_s
            answers.append(session.run(None, feed))
            ends_s.append(time.perf_counter() - start_s)
            marks = marks or list(session.marks)
        session.wait()
        names = [spec.name for spec in session.get_outputs()]
        return {
            "scheme": session.scheme,
            "answers": [dict(zip(names, answer, strict=True)) for answer in answers],
            "first_s": ends_s[0],
            "later_s": ends_s[1:],
            "marks": marks,
        }


def describe_run(found: Any) -> Any:
    """Return the reply: what each child did until the first answer, and how long the rest took."""
    import statistics

    from partita.cli.output import Reply
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.units import format_seconds

    steady_s = statistics.median(found["later_s"]) if found["later_s"] else None
    times = {(mark.what, mark.child): mark for mark in found["marks"]}
    rows, children = [], []
    for number, child in enumerate(found["scheme"].children):
        told: dict[str, Any] = {"layers": len(child.layers), "weight_bytes": child.size_bytes}
        cells = [str(number), str(len(child.layers))]
        for what in ("load", "compute"):
            mark = times[what, number]
            told[what] = {"start_s": mark.start_s, "end_s": mark.end_s}
            cells.append(f"{format_seconds(mark.start_s)} to {format_seconds(mark.end_s)}")
        rows.append(tuple(cells))
        children.append(told)
    columns = ("child", "layers", "loads", "computes")
    lines: list[Any] = [draw_table(TableData("Until the first answer", columns, tuple(rows)))]
    lines.append(f"First answer:  {format_seconds(found['first_s'])} after the call")
    if steady_s is not None:
        lines.append(f"Later answers: {format_seconds(steady_s)} (median)")
    payload = {
        "scheme": found["scheme"].name,
        "first_s": found["first_s"],
        "steady_s": steady_s,
        "requests": len(found["answers"]),
        "children": children,
    }
    return Reply(payload, lines)


def write_answers(path: Path, answers: list[dict[str, Any]]) -> None:
    """Write the outputs of all requests to a file: an array per output, requests first.

    Raises:
        InputError: It cannot be written.
    """
    import io

    import numpy as np

    from partita.cli.output import write_output

    file = io.BytesIO()
    arrays: dict[str, Any] = {n: np.stack([one[n] for one in answers]) for n in answers[0]}
    np.savez(file, **arrays)
    write_output(path, file.getvalue())
