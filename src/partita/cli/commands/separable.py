"""``partita separable``: networks made to be separated, from search to ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number
from partita.cli.output import check_output, print_reply

separable = typer.Typer(
    name="separable",
    help="Networks whose groups of paths hardly talk: search, train, export, advise.",
    rich_markup_mode=None,
)

DataOpt = Annotated[
    str,
    flag("--data", "fashion, mnist, CIFAR's binary archive, or a folder: see the documents."),
]
FolderOpt = Annotated[Path, flag("--output", "Folder of the run.", "-o")]
SettingOpt = Annotated[str, flag("--setting", "Where numbers come from: paper, small or tiny.")]
ChangeOpt = Annotated[
    list[str] | None,
    flag("--set", "Change a number: search.NAME=VALUE or train.NAME=VALUE. Repeatable."),
]
DepthOpt = Annotated[int | None, number("--depth", 1, 10_000, "Layers: 11, 20, 29... 56, 110.")]
CardinalityOpt = Annotated[int | None, number("--cardinality", 1, 4096, "Paths of a block.")]
WidthOpt = Annotated[
    int | None, number("--width", 1, 4096, "Channels of a path in the first stage.")
]
GroupsOpt = Annotated[int | None, number("--groups", 1, 64, "Parts that may lie apart.")]
AlphaOpt = Annotated[
    int | None, number("--alpha", 1, 1000, "Blocks of a window: features arrive so late.")
]
HalvesOpt = Annotated[bool, flag("--halves", "Send features as 16-bit floats.")]
LossesOpt = Annotated[
    float, number("--drop-messages", 0, 0.99, "Share of messages that training loses.")
]
FromOpt = Annotated[Path | None, flag("--from", "Begin with the weights of this checkpoint.")]
TrainThreadsOpt = Annotated[
    int | None, number("--threads", 1, 256, "Within one operator; all cores by default.")
]
ResumeOpt = Annotated[bool, flag("--resume", "Go on with the run in the folder.")]
TensorBoardOpt = Annotated[bool, flag("--tensorboard", "Write event files into the folder.")]


@separable.command("search")
def search(
    data: DataOpt,
    output: FolderOpt,
    setting: SettingOpt = "small",
    change: ChangeOpt = None,
    depth: DepthOpt = None,
    cardinality: CardinalityOpt = None,
    width: WidthOpt = None,
    groups: GroupsOpt = None,
    alpha: AlphaOpt = None,
    sampler: Annotated[
        str, flag("--sampler", "Who proposes: controller, random or evolution.")
    ] = "controller",
    prices: Annotated[
        str | None,
        flag("--prices", "What all of the ring's bytes cost the reward, in accuracy: 0,0.1,0.3."),
    ] = None,
    sparse: Annotated[
        bool, flag("--sparse", "Also choose what share of channels is sent.")
    ] = False,
    halves: HalvesOpt = False,
    drop_messages: LossesOpt = 0.0,
    weights: FromOpt = None,
    seed: flags.SeedOpt = 0,
    threads: TrainThreadsOpt = None,
    resume: ResumeOpt = False,
    tensorboard: TensorBoardOpt = False,
    on: Annotated[
        str | None, flag("--on", "Train the networks that are found all at once, on: ray.")
    ] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Search who sends to whom, and train networks under what is found."""
    from partita.cli.actions import separable_search as action

    form = action.FormFlags(setting, change or (), depth, cardinality, width, groups, alpha)
    run = action.RunFlags(data, output, weights, drop_messages, seed, threads, resume, tensorboard)
    reply = action.search_policies(
        form, run, sampler, prices, sparse=sparse, halves=halves, engine=on
    )
    return print_reply(reply, as_json=json)


@separable.command("train")
def train(
    data: DataOpt,
    policy: Annotated[
        str,
        flag(
            "--policy",
            "plain (one piece), none (groups do not talk), a network's file, or numbers: 9,16:6,0.",
        ),
    ],
    output: FolderOpt,
    setting: SettingOpt = "small",
    change: ChangeOpt = None,
    depth: DepthOpt = None,
    cardinality: CardinalityOpt = None,
    width: WidthOpt = None,
    groups: GroupsOpt = None,
    alpha: AlphaOpt = None,
    halves: HalvesOpt = False,
    drop_messages: LossesOpt = 0.0,
    weights: FromOpt = None,
    seed: flags.SeedOpt = 0,
    threads: TrainThreadsOpt = None,
    resume: ResumeOpt = False,
    tensorboard: TensorBoardOpt = False,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Train one network: plain, silent, or under a policy."""
    from partita.cli.actions import separable_train as action

    form = action.FormFlags(setting, change or (), depth, cardinality, width, groups, alpha)
    run = action.RunFlags(data, output, weights, drop_messages, seed, threads, resume, tensorboard)
    return print_reply(action.train_policy(form, run, policy, halves=halves), as_json=json)


@separable.command("export")
def export(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="A network….safetensors of a run.")
    ],
    output: Annotated[Path, flag("--output", "ONNX file to write.", "-o")],
    lost: Annotated[
        list[int] | None,
        flag("--lost", "Group whose messages do not come, as its device is gone. Repeatable."),
    ] = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Write a trained network as an ONNX graph that ordinary planners place."""
    check_output(output, checkpoint)
    from partita.cli.actions.separable_export import export_checkpoint

    return print_reply(export_checkpoint(checkpoint, output, lost or ()), as_json=json)


@separable.command("convert")
def convert(
    model: flags.ModelArg,
    groups: Annotated[int, number("--groups", 1, 4096, "Parts that may lie apart.")],
    output: Annotated[Path, flag("--output", "Folder for graph and checkpoint.", "-o")],
    alpha: Annotated[
        int, number("--alpha", 1, 1000, "Blocks of a window: features arrive so late.")
    ] = 1,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Divide the blocks of a residual network of yours into groups, to be trained on."""
    from partita.cli.actions.separable_convert import convert_model

    return print_reply(convert_model(model, shape, groups, alpha, output), as_json=json)


@separable.command("advise")
def advise(
    cluster: Annotated[Path, typer.Argument(metavar="CLUSTER", help="Cluster file (TOML).")],
    network: Annotated[
        str, flag("--network", "Paths, width of a path and depth: 4x16d-56.")
    ] = "4x16d-56",
    groups: Annotated[int, number("--groups", 2, 64, "Parts that may lie apart.")] = 4,
    classes: Annotated[int, number("--classes", 1, 10_000, "What is told apart.")] = 10,
    halves: Annotated[bool, flag("--halves", "Features travel as 16-bit floats.")] = False,
    profile: flags.ProfileOpt = None,
    budget: Annotated[
        float, number("--budget", 0, flags.MOST_SECONDS, "Seconds for dividing the plain network.")
    ] = 5.0,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Say which staleness fits a cluster, and whether the plain network divided does as well."""
    from partita.cli.actions.separable_advise import Wanted, advise_cluster

    wanted = Wanted(network, groups, classes, halves, budget, profile)
    return print_reply(advise_cluster(cluster, wanted), as_json=json)
