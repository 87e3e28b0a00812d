"""``partita load``: child models, from file to first answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import MOST_REQUESTS, flag, number, refuse_given
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
    model: flags.ModelArg,
    output: Annotated[Path, flag("--output", "Folder of the bundle.", "-o")],
    method: Annotated[
        str, flag("--method", "best, optimum, balanced, qlearning or sarsa.")
    ] = "best",
    cold: Annotated[bool, flag("--cold", "Choose for weights that are not in memory.")] = False,
    measure: Annotated[
        bool, flag("--measure", "Let what learns really load children; takes minutes.")
    ] = False,
    blocks: Annotated[
        list[Path] | None,
        flag("--blocks", "From 'load profile' on a kind of device; one variant for each."),
    ] = None,
    children: Annotated[
        int | None, number("--children", 1, 4096, "So many, of about equal weights.")
    ] = None,
    ends: Annotated[
        str | None, flag("--ends", "Layers before which children end: 12,40,77.")
    ] = None,
    threads: flags.ThreadsOpt = 1,
    loaders: Annotated[int, number("--loaders", 1, 256, "Children at a time.")] = 1,
    trainable: flags.TrainableOpt = None,
    portable: Annotated[
        bool, flag("--portable/--no-portable", "Also a variant for other processors.")
    ] = True,
    seed: flags.SeedOpt = 0,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
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
    inputs: flags.InputsOpt = None,
    variant: Annotated[
        str | None, flag("--variant", "Name of the variant; the first that fits by default.")
    ] = None,
    threads: Annotated[int | None, number("--threads", 1, 256, "Within one operator.")] = None,
    loaders: Annotated[
        int | None, number("--loaders", 1, 256, "Children that load at a time.")
    ] = None,
    read_ahead: Annotated[bool, flag("--read-ahead/--no-read-ahead", "Of the weights.")] = True,
    requests: Annotated[
        int, number("--requests", 1, MOST_REQUESTS, "When no input is given.")
    ] = 10,
    output: Annotated[Path | None, flag("--output", "File for the outputs (.npz).", "-o")] = None,
    seed: flags.SeedOpt = 0,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Answer requests from a bundle, the first one while it loads."""
    if inputs:
        refuse_given(context, ("seed",), "does not go with --input: nothing is drawn")
        refuse_given(context, ("requests",), "does not go with --input: each file is one request")
    from partita.cli.actions.load_run import Loading, run_bundle

    loading = Loading(variant, threads, loaders, read_ahead)
    reply = run_bundle(bundle, flags.RequestFlags(inputs, requests, seed), loading, output)
    return print_reply(reply, as_json=json)


@load.command("show")
def show(
    bundle: BundleArg,
    verify: Annotated[
        bool, flag("--verify/--no-verify", "Compare all files with their hashes.")
    ] = True,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Say what a bundle holds, and whether it is as it was written."""
    from partita.cli.actions.load_show import show_bundle

    return print_reply(show_bundle(bundle, verify=verify), as_json=json)


@load.command("profile")
def profile(
    model: flags.ModelArg,
    output: Annotated[Path, flag("--output", "File to write.", "-o")],
    device: Annotated[
        str, flag("--device", "What kind of device this machine is.")
    ] = "this-machine",
    threads: flags.ThreadsOpt = 1,
    blocks: Annotated[int, number("--most", 1, 256, "Most blocks.")] = 24,
    repeats: Annotated[int, number("--repeats", 1, 1000, "Of everything.")] = 5,
    trainable: flags.TrainableOpt = None,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Measure what each block of a model takes to load and to run, for 'split --blocks'."""
    check_output(output, model)
    if device == "portable":
        raise InputError("--device 'portable' is the variant of all others; name another.")
    if not is_name(device):
        raise InputError(f"--device '{device}' is no name; allowed: {NAME_RULE}.")
    from partita.cli.actions.load_measure import profile_blocks

    reply = profile_blocks(
        model,
        shape,
        output,
        device=device,
        threads=threads,
        most_blocks=blocks,
        repeats=repeats,
        trainable=trainable or (),
    )
    return print_reply(reply, as_json=json)


@load.command("switch")
def switch(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The model in use.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to change to.")],
    repeats: Annotated[int, number("--repeats", 1, 1000, "Changes each way.")] = 10,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Measure what changing from one loaded model to another takes, up to the first answer."""
    from partita.cli.actions.load_measure import time_switch

    return print_reply(time_switch(bundle, other, repeats), as_json=json)


@load.command("personalise")
def personalise(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Split with --trainable.")],
    samples: Annotated[Path, flag("--samples", "File (.npz) with arrays x (inputs) and y.")],
    epochs: Annotated[int, number("--epochs", 1, 100_000, "Passes over the samples.")] = 20,
    rate: Annotated[float, number("--rate", 1e-9, 100, "Learning rate.")] = 0.003,
    batch: Annotated[int, number("--batch", 1, 10**6, "Samples per step.")] = 16,
    held_out: Annotated[
        float, number("--held-out", 0, 0.9, "Share that only judges the result.")
    ] = 0.2,
    threads: flags.ThreadsOpt = 1,
    seed: flags.SeedOpt = 0,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Train the last child of a bundle on samples, and put it into the bundle."""
    from partita.cli.actions.load_personalise import PersonalOptions, personalise_bundle

    options = PersonalOptions(epochs, rate, batch, seed=seed, held_out=held_out, threads=threads)
    return print_reply(personalise_bundle(bundle, samples, options), as_json=json)
