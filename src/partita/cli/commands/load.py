"""``partita load``: child models, from file to first answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.flags import (
    MOST_REQUESTS,
    DebugOpt,
    InputsOpt,
    JsonOpt,
    ModelArg,
    RequestFlags,
    SeedOpt,
    ShapeOpt,
    ThreadsOpt,
    TrainableOpt,
    from_to,
    refuse_given,
)
from partita.cli.output import check_output, print_reply
from partita.errors import InputError
from partita.naming import NAME_RULE, is_name

load = typer.Typer(
    name="load",
    help="Child models: load in parts, and answer before all is loaded.",
    rich_markup_mode=None,
)

BundleArg = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="Folder from 'partita load split'.")
]


@load.command("split")
def split(
    context: typer.Context,
    model: ModelArg,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the bundle.")],
    method: Annotated[
        str, typer.Option("--method", help="best, optimum, balanced, qlearning or sarsa.")
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
        str | None, typer.Option("--ends", help="Layers before which children end: 12,40,77.")
    ] = None,
    threads: ThreadsOpt = 1,
    loaders: Annotated[
        int, typer.Option("--loaders", callback=from_to(1, 256), help="Children at a time.")
    ] = 1,
    trainable: TrainableOpt = None,
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
    measured = ("method", "cold", "measure", "seed")
    if ends is not None:
        refuse_given(context, ("children", "blocks", *measured), "does not go with --ends")
    if children is not None:
        refuse_given(context, ("blocks", *measured), "does not go with --children")
    if blocks:
        refuse_given(context, ("measure", "threads"), "does not go with --blocks")
    if measure and method not in ("qlearning", "sarsa"):
        raise typer.BadParameter(
            f"--measure does not go with --method {method}: that learns nothing"
        )
    from partita.cli.actions.load_split import Cutting, Search, split_model

    cutting = Cutting(
        search=Search(method, loaders, cold, seed, measure),
        profiles=blocks or (),
        ends=ends,
        children=children,
        threads=threads,
        trainable=trainable or (),
        portable=portable,
    )
    return print_reply(split_model(model, shape, output, cutting), as_json=json)


@load.command("run")
def run(
    context: typer.Context,
    bundle: BundleArg,
    inputs: InputsOpt = None,
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", help="Name of the scheme; the first that fits by default."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", callback=from_to(1, 256), help="Within one operator."),
    ] = None,
    loaders: Annotated[
        int | None,
        typer.Option("--loaders", callback=from_to(1, 256), help="Children that load at a time."),
    ] = None,
    read_ahead: Annotated[
        bool, typer.Option("--read-ahead/--no-read-ahead", help="Of the weights.")
    ] = True,
    requests: Annotated[
        int,
        typer.Option(
            "--requests", callback=from_to(1, MOST_REQUESTS), help="When no input is given."
        ),
    ] = 10,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the outputs (.npz).")
    ] = None,
    seed: SeedOpt = 0,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Answer requests from a bundle, the first one while it loads."""
    if inputs:
        refuse_given(context, ("seed",), "does not go with --input: nothing is drawn")
        refuse_given(context, ("requests",), "does not go with --input: each file is one request")
    from partita.cli.actions.load_run import Loading, run_bundle

    loading = Loading(scheme, threads, loaders, read_ahead)
    reply = run_bundle(bundle, RequestFlags(inputs, requests, seed), loading, output)
    return print_reply(reply, as_json=json)


@load.command("show")
def show(
    bundle: BundleArg,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare all files with their hashes.")
    ] = True,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Say what a bundle holds, and whether it is as it was written."""
    from partita.cli.actions.load_show import show_bundle

    return print_reply(show_bundle(bundle, verify=verify), as_json=json)


@load.command("profile")
def profile(
    model: ModelArg,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    device: Annotated[
        str, typer.Option("--device", help="What kind of device this machine is.")
    ] = "this-machine",
    threads: ThreadsOpt = 1,
    blocks: Annotated[
        int, typer.Option("--most", callback=from_to(1, 256), help="Most blocks.")
    ] = 24,
    repeats: Annotated[
        int, typer.Option("--repeats", callback=from_to(1, 1000), help="Of everything.")
    ] = 5,
    trainable: TrainableOpt = None,
    shape: ShapeOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Measure what each block of a model takes to load and to run, for 'split --blocks'."""
    check_output(output, model)
    if device == "portable":
        raise InputError("--device 'portable' is the scheme of all others; name another.")
    if not is_name(device):
        raise InputError(f"--device '{device}' is no name; allowed: {NAME_RULE}.")
    from partita.cli.actions.load_measure import BlockOptions, profile_blocks

    options = BlockOptions(device, threads, blocks, repeats, trainable or ())
    return print_reply(profile_blocks(model, shape, output, options), as_json=json)


@load.command("switch")
def switch(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The model in use.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to change to.")],
    repeats: Annotated[
        int, typer.Option("--repeats", callback=from_to(1, 1000), help="Changes each way.")
    ] = 10,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Measure what changing from one loaded model to another takes, up to the first answer."""
    from partita.cli.actions.load_measure import time_switch

    return print_reply(time_switch(bundle, other, repeats), as_json=json)


@load.command("personalise")
def personalise(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Split with --trainable.")],
    samples: Annotated[
        Path, typer.Option("--samples", help="File (.npz) with arrays x (inputs) and y.")
    ],
    epochs: Annotated[
        int, typer.Option("--epochs", callback=from_to(1, 100_000), help="Passes over the samples.")
    ] = 20,
    rate: Annotated[
        float, typer.Option("--rate", callback=from_to(1e-9, 100), help="Learning rate.")
    ] = 0.003,
    batch: Annotated[
        int, typer.Option("--batch", callback=from_to(1, 10**6), help="Samples per step.")
    ] = 16,
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out", callback=from_to(0, 0.9), help="Share that only judges the result."
        ),
    ] = 0.2,
    threads: ThreadsOpt = 1,
    seed: SeedOpt = 0,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> int:
    """Train the last child of a bundle on samples, and put it into the bundle."""
    from partita.cli.actions.load_personalise import PersonalOptions, personalise_bundle

    options = PersonalOptions(epochs, rate, batch, seed=seed, held_out=held_out, threads=threads)
    return print_reply(personalise_bundle(bundle, samples, options), as_json=json)
