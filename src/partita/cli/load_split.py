"""``partita load split``: where to cut, and the bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.flags import DebugOpt, JsonOpt, ModelArg, SeedOpt, ShapeOpt, from_to, refuse_given


def register(load: typer.Typer) -> None:
    """Add the verb to those of ``partita load``."""

    @load.command("split")
    def split(
        context: typer.Context,
        model: ModelArg,
        output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the bundle.")],
        method: Annotated[
            str,
            typer.Option("--method", help="best, optimum, balanced, qlearning or sarsa."),
        ] = "best",
        cold: Annotated[
            bool, typer.Option("--cold", help="Choose for weights that are not in memory.")
        ] = False,
        measure: Annotated[
            bool,
            typer.Option("--measure", help="Let what learns really load children; takes minutes."),
        ] = False,
        blocks: Annotated[
            list[Path] | None,
            typer.Option(
                "--blocks", help="From 'load profile' on a kind of device; one scheme for each."
            ),
        ] = None,
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

        refuse_mixed(context, ends=ends is not None, children=children is not None, blocks=blocks)
        if measure and method not in ("qlearning", "sarsa"):
            raise typer.BadParameter(
                f"--measure does not go with --method {method}: that learns nothing"
            )
        graph = read_graph(model, shape)
        wishes = {"method": method, "loaders": loaders, "cold": cold, "seed": seed}
        choice, divisions = None, []
        prepack = False
        if blocks:
            divisions = divide_for_devices(graph, blocks, wishes, trainable or ())
            chosen = divisions[0].ends
        elif ends is not None:
            chosen = parse_ends(ends)
        elif children is not None:
            chosen = balanced_ends(graph, children, trainable or ())
        else:
            wishes["real_rewards"] = measure
            choice = choose_ends(graph, wishes, threads, trainable or ())
            chosen = choice.ends
            prepack = choice.prepack
        usual = Division("tuned", chosen, threads=threads, loaders=loaders, prepack=prepack)
        divisions = divisions or [usual]
        if portable:
            divisions.append(replace(usual, name="portable", tuned=False))
        with progress_bar("splitting") as advance:
            manifest = write_bundle(
                graph, divisions, output, trainable=trainable or (), progress=advance
            )
        reply = describe_bundle(manifest, output)
        if choice is not None:
            add_choice(reply, choice)
        return print_reply(reply, as_json=json)


def refuse_mixed(context: typer.Context, *, ends: bool, children: bool, blocks: Any) -> None:
    """Refuse flags that say in two ways where to cut.

    Raises:
        typer.BadParameter: Such flags were given.
    """
    measured = ("method", "cold", "measure", "seed")
    if ends:
        refuse_given(context, ("children", "blocks", *measured), "does not go with --ends")
    if children:
        refuse_given(context, ("blocks", *measured), "does not go with --children")
    if blocks:
        refuse_given(context, ("measure", "threads"), "does not go with --blocks")


def divide_for_devices(
    graph: Any, files: list[Path], wishes: dict[str, Any], trainable: Any
) -> list[Any]:
    """Return a division for each kind of device, cut as its profile of blocks says.

    Raises:
        BundleError: A profile is of another model, engine or trainable layers, or of the same
            device.
        ClusterError: A file is no profile of blocks.
    """
    from partita.errors import BundleError
    from partita.loading import Division, choose_division, load_blocks
    from partita.loading.bundle.manifest import engine_name, processor_signature
    from partita.loading.write.trainable_layers import first_trainable

    here = processor_signature()
    border = first_trainable(graph, trainable)
    found: dict[str, Any] = {}
    for path in files:
        profile = load_blocks(path)
        for what, got, wanted in (
            ("model", profile.model_hash[:12], graph.hash[:12]),
            ("engine", profile.engine, engine_name()),
            ("trainable layers from number", profile.first_trainable + 1, border + 1),
        ):
            if got != wanted:
                raise BundleError(
                    f"Profile of blocks '{path}' is of {what} {got}, here is {wanted}. Measure"
                    " again with 'partita load profile'.",
                    subject=str(path),
                )
        if profile.device in (*found, "portable"):
            raise BundleError(
                f"Profile of blocks '{path}' is of device '{profile.device}', whose name is taken;"
                " name another with 'partita load profile --device'.",
                subject=str(path),
            )
        found[profile.device] = Division(
            profile.device,
            choose_division(profile, **wishes).ends,
            device=profile.device,
            tuned=profile.tuned and profile.processor == here,
            threads=profile.threads,
            loaders=wishes["loaders"],
            measured_on=profile.processor,
        )
    return list(found.values())


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
    from partita.loading import TrialLoads, check_method, choose_division, measure_blocks

    check_method(wishes["method"])
    with progress_bar("measuring blocks") as advance:
        profile = measure_blocks(graph, threads=threads, trainable=trainable, progress=advance)
    told = {"loaders": wishes["loaders"], "cold": wishes["cold"]}
    with (
        progress_bar("trying children") as advance,
        TrialLoads(graph, profile, **told, progress=advance) as trial_loads,
    ):
        return choose_division(profile, **wishes, trial_loads=trial_loads)


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
        for one in choice.results
    ]
    columns = ("method", "children", "first answer: predicted", "above optimum", "measured")
    table = draw_table(TableData("Where to cut", columns, tuple(rows)))
    reply.shown[:0] = [table, f"Chosen: {describe_choice(choice)}", ""]
    reply.payload["choice"] = {
        "ends": list(choice.ends),
        "prepack": choice.prepack,
        "whole_s": choice.whole_s,
        "speedup_bound": choice.speedup_bound,
        "found": [
            {"method": one.method, "children": one.children}
            | {"makespan_s": one.makespan_s, "gap": one.gap, "measured_s": one.measured_s}
            for one in choice.results
        ],
    }


def describe_choice(choice: Any) -> str:
    """Return what was chosen and why, in a line."""
    from partita.loading.cut.choose import ABOUT_AS_SOON

    chosen = choice.chosen
    if chosen.measured_s is None:
        return f"{chosen.method}, the soonest as predicted from its blocks."
    return (
        f"{chosen.method}, as measured; of those within {ABOUT_AS_SOON - 1:.0%} of the soonest, the"
        " one of fewest children. Predicted times are sums of what its blocks took one by one."
    )


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
