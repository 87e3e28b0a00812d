"""``partita load``: child models, from file to first answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli import personalise
from partita.cli.flags import DebugOpt, JsonOpt, ModelArg, SeedOpt, ShapeOpt, from_to, refuse_given

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
    _register_split(load)
    _register_run(load)
    _register_show(load)
    personalise.register(load)


def _register_split(app: typer.Typer) -> None:
    @app.command("split")
    def split(
        context: typer.Context,
        model: ModelArg,
        output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the bundle.")],
        method: Annotated[
            str,
            typer.Option("--method", help="best, qlearning, sarsa, optimum or balanced."),
        ] = "best",
        cold: Annotated[
            bool, typer.Option("--cold", help="Choose for weights that are not in memory.")
        ] = False,
        measure: Annotated[
            bool,
            typer.Option("--measure", help="Let what learns really load children; takes minutes."),
        ] = False,
        children: Annotated[
            int | None,
            typer.Option(
                "--children", callback=from_to(1, 4096), help="So many, of about equal weights."
            ),
        ] = None,
        ends: Annotated[
            str | None,
            typer.Option("--ends", help="Layers before which children end: 12,40,77."),
        ] = None,
        threads: Annotated[
            int, typer.Option("--threads", callback=from_to(1, 256), help="Within one operator.")
        ] = 1,
        loaders: Annotated[
            int, typer.Option("--loaders", callback=from_to(1, 256), help="Children at a time.")
        ] = 1,
        trainable: Annotated[
            list[str] | None,
            typer.Option("--trainable", help="Layer that may be trained; may be repeated."),
        ] = None,
        portable: Annotated[
            bool,
            typer.Option("--portable/--no-portable", help="Also a scheme for other processors."),
        ] = True,
        seed: SeedOpt = 0,
        shape: ShapeOpt = None,
        json: JsonOpt = False,
        debug: DebugOpt = False,
    ) -> int:
        """Write a bundle: the model in child models that have nothing left to do at load time."""
        from partita.cli.output import print_reply, progress_bar
        from partita.cli.sources import read_graph
        from partita.loading import Division, balanced_ends, write_bundle

        if ends is not None:
            refuse_given(
                context, ("children", "method", "cold", "measure"), "does not go with --ends"
            )
        if children is not None:
            refuse_given(context, ("method", "cold", "measure"), "does not go with --children")
        graph = read_graph(model, shape)
        choice = None
        if ends is not None:
            chosen = parse_ends(ends)
        elif children is not None:
            chosen = balanced_ends(graph, children)
        else:
            wishes = {"method": method, "loaders": loaders, "cold": cold, "seed": seed}
            wishes["real_rewards"] = measure
            choice = choose_ends(graph, wishes, threads, trainable or ())
            chosen = choice.ends
        divisions = [
            Division(name, chosen, tuned=tuned, threads=threads, loaders=loaders)
            for name, tuned in (("tuned", True), ("portable", False))
            if tuned or portable
        ]
        with progress_bar("splitting") as advance:
            manifest = write_bundle(
                graph, divisions, output, trainable=trainable or (), progress=advance
            )
        reply = describe_bundle(manifest, output)
        if choice is not None:
            add_choice(reply, choice)
        return print_reply(reply, as_json=json)


def _register_run(app: typer.Typer) -> None:
    @app.command("run")
    def run(
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
        from partita.cli.inputs import draw_inputs, input_files, read_inputs
        from partita.cli.output import check_output, print_reply
        from partita.loading import choose_scheme, read_manifest

        check_output(output, *input_files(inputs or ()), inside=bundle)
        specs = choose_scheme(read_manifest(bundle), bundle, scheme).program.inputs
        feeds = read_inputs(specs, inputs) if inputs else draw_inputs(specs, requests, seed)
        options = {"scheme": scheme, "threads": threads, "loaders": loaders}
        found = run_bundle(bundle, feeds, options | {"read_ahead": read_ahead})
        if output is not None:
            write_answers(output, found["answers"])
        return print_reply(describe_run(found), as_json=json)


def _register_show(app: typer.Typer) -> None:
    @app.command("show")
    def show(bundle: BundleArg, json: JsonOpt = False, debug: DebugOpt = False) -> int:
        """Say what a bundle holds."""
        from partita.cli.output import print_reply
        from partita.loading import read_manifest

        return print_reply(describe_bundle(read_manifest(bundle), bundle), as_json=json)


def parse_ends(text: str) -> tuple[int, ...]:
    """Return numbers with commas between.

    Raises:
        InputError: One of them is no number.
    """
    from partita.errors import InputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--ends '{text}' is not understood; allowed: numbers with commas between.",
            subject=text,
        ) from None


def choose_ends(graph: Any, wishes: dict[str, Any], threads: int, trainable: Any) -> Any:
    """Measure the model's blocks on this machine and return where to cut it."""
    from partita.cli.output import progress_bar
    from partita.loading import Tryout, check_method, choose_division, measure_blocks

    check_method(wishes["method"])
    with progress_bar("measuring blocks") as advance:
        profile = measure_blocks(graph, threads=threads, trainable=trainable, progress=advance)
    told = {"loaders": wishes["loaders"], "cold": wishes["cold"]}
    with (
        progress_bar("trying children") as advance,
        Tryout(graph, profile, **told, progress=advance) as tryout,
    ):
        return choose_division(profile, **wishes, tryout=tryout)


def add_choice(reply: Any, choice: Any) -> None:
    """Add to a reply what each method found, and what it saves."""
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.units import format_seconds

    rows = [
        (
            one.method,
            str(one.children),
            format_seconds(one.makespan_s),
            f"{one.gap:+.1%}",
            format_seconds(one.time_s),
        )
        for one in choice.found
    ]
    columns = ("method", "children", "first answer: predicted", "above optimum", "measured")
    reply.shown.insert(0, draw_table(TableData("Where to cut", columns, tuple(rows))))
    reply.payload["choice"] = {
        "ends": list(choice.ends),
        "whole_s": choice.whole_s,
        "speedup_bound": choice.speedup_bound,
        "found": [
            {"method": one.method, "children": one.children}
            | {"makespan_s": one.makespan_s, "gap": one.gap, "measured_s": one.measured_s}
            for one in choice.found
        ],
    }


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


def describe_bundle(manifest: Any, folder: Path) -> Any:
    """Return the reply that lists schemes and children."""
    from partita.cli.output import Reply
    from partita.report import draw_table
    from partita.report.tables import TableData, describe_layers
    from partita.units import format_bytes

    rows = [
        (
            scheme.name,
            str(number),
            describe_layers(child.layers),
            format_bytes(child.size_bytes),
            "yes" if child.trainable else "no",
        )
        for scheme in manifest.schemes
        for number, child in enumerate(scheme.children)
    ]
    columns = ("scheme", "child", "layers", "weights", "trainable")
    table = draw_table(TableData(f"Bundle of {manifest.model}", columns, tuple(rows), 3))
    payload = {
        "folder": str(folder),
        "model": manifest.model,
        "engine": manifest.engine,
        "schemes": [
            {
                "name": scheme.name,
                "device": scheme.device,
                "processor": scheme.processor,
                "threads": scheme.threads,
                "loaders": scheme.loaders,
                "weight_bytes": scheme.weights_bytes,
                "children": [
                    {
                        "layers": list(child.layers),
                        "weight_bytes": child.size_bytes,
                        "trainable": child.trainable,
                    }
                    for child in scheme.children
                ],
            }
            for scheme in manifest.schemes
        ],
    }
    return Reply(payload, [table, f"Bundle: {folder}"])


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
