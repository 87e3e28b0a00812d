"""Where to cut a model into children, and the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from partita.cli.actions.load_show import describe_bundle
from partita.cli.output import Reply, check_folder, progress_bar
from partita.cli.sources import read_graph
from partita.errors import BundleError, InputError
from partita.graph import Graph
from partita.loading import (
    BlockProfile,
    Choice,
    Division,
    TrialLoads,
    balanced_ends,
    check_method,
    choose_division,
    load_blocks,
    measure_blocks,
    write_bundle,
)
from partita.loading.bundle.manifest import engine_name, processor_signature
from partita.loading.cut.choose import ABOUT_AS_SOON, Method
from partita.loading.write.atomic_folder import check_target
from partita.loading.write.trainable_layers import first_trainable
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_seconds

#: Name of the variant for all other processors.
_PORTABLE = "portable"


@dataclass(frozen=True)
class Search:
    """How the ends of children are searched for; see :func:`partita.loading.choose_division`."""

    method: str
    loaders: int
    cold: bool
    seed: int
    real_rewards: bool


@dataclass(frozen=True)
class Cutting:
    """Where children end: as profiles of blocks say, as told, or as a search on this machine does.

    Attributes:
        search: Where nothing else says where.
        profiles: Files from 'load profile', one variant for each.
        ends: Numbers of layers with commas between.
        children: So many, of about equal weights.
        portable: Whether there is a variant for other processors, too.
    """

    search: Search
    profiles: Sequence[Path]
    ends: str | None
    children: int | None
    threads: int
    trainable: Sequence[str]
    portable: bool


def split_model(model: Path, shapes: Sequence[str] | None, output: Path, cutting: Cutting) -> Reply:
    """Cut a model and write the bundle.

    Raises:
        BundleError: The model cannot be cut so, or a profile of blocks is not for it.
        ModelError: The model cannot be read.
    """
    check_folder(output, is_replaced=True)
    check_target(output.resolve())
    graph = read_graph(model, shapes)
    choice = None
    divisions: list[Division] = []
    if cutting.profiles:
        divisions = divide_for_devices(graph, cutting)
        ends = divisions[0].ends
    elif cutting.ends is not None:
        ends = parse_ends(cutting.ends)
    elif cutting.children is not None:
        ends = balanced_ends(graph, cutting.children, cutting.trainable)
    else:
        choice = search_ends(graph, cutting)
        ends = choice.ends
    usual = Division(
        "tuned",
        ends,
        threads=cutting.threads,
        loaders=cutting.search.loaders,
        prepack=choice is not None and choice.prepack,
    )
    divisions = divisions or [usual]
    if cutting.portable:
        divisions.append(replace(usual, name=_PORTABLE, tuned=False))
    with progress_bar("splitting") as advance:
        manifest = write_bundle(
            graph, divisions, output, trainable=cutting.trainable, progress=advance
        )
    reply = describe_bundle(manifest, output)
    if choice is not None:
        _add_choice(reply, choice)
    return reply


def divide_for_devices(graph: Graph, cutting: Cutting) -> list[Division]:
    """A division for each kind of device, cut as its profile of blocks says.

    Raises:
        BundleError: A profile is of another model, engine or trainable layers, or of the same
            device.
        ClusterError: A file is no profile of blocks.
    """
    processor, search = processor_signature(), cutting.search
    divisions: dict[str, Division] = {}
    for path in cutting.profiles:
        profile = load_blocks(path)
        _check_profile(path, profile, graph, cutting.trainable)
        device = profile.device
        if device in (*divisions, _PORTABLE):
            raise BundleError(
                f"Profile of blocks '{path}' is of device '{device}', whose name is taken;"
                " name another with 'partita load profile --device'.",
                subject=str(path),
            )
        divisions[device] = Division(
            device,
            _choose(profile, search).ends,
            device=device,
            tuned=profile.tuned and profile.processor == processor,
            threads=profile.threads,
            loaders=search.loaders,
            measured_on=profile.processor,
        )
    return list(divisions.values())


def _check_profile(
    path: Path, profile: BlockProfile, graph: Graph, trainable: Sequence[str]
) -> None:
    border = first_trainable(graph, trainable)
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


def parse_ends(text: str) -> tuple[int, ...]:
    """Numbers with commas between.

    Raises:
        InputError: One of them is no number.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--ends '{text}' is not understood; allowed: numbers with commas between.",
            subject=text,
        ) from None


def search_ends(graph: Graph, cutting: Cutting) -> Choice:
    """Measure the model's blocks on this machine and search where to cut it."""
    search = cutting.search
    check_method(search.method)
    with progress_bar("measuring blocks") as advance:
        profile = measure_blocks(
            graph, threads=cutting.threads, trainable=cutting.trainable, progress=advance
        )
    with (
        progress_bar("trying children") as advance,
        TrialLoads(
            graph, profile, loaders=search.loaders, cold=search.cold, progress=advance
        ) as trial_loads,
    ):
        return _choose(profile, search, trial_loads)


def _choose(profile: BlockProfile, search: Search, trial_loads: TrialLoads | None = None) -> Choice:
    return choose_division(
        profile,
        method=cast(Method, search.method),  # any other is refused there
        loaders=search.loaders,
        cold=search.cold,
        seed=search.seed,
        trial_loads=trial_loads,
        real_rewards=search.real_rewards,
    )


def _add_choice(reply: Reply, choice: Choice) -> None:
    """Add to a reply what each method answered, and what it saves."""
    rows = tuple(
        (
            answer.method,
            str(answer.children),
            format_seconds(answer.makespan_s),
            f"{answer.gap:+.1%}",
            format_seconds(answer.time_s),
        )
        for answer in choice.results
    )
    columns = ("method", "children", "first answer: predicted", "above optimum", "measured")
    table = draw_table(TableData("Where to cut", columns, rows))
    reply.shown[:0] = [table, f"Chosen: {_describe_choice(choice)}", ""]
    reply.payload["choice"] = {
        "ends": list(choice.ends),
        "prepack": choice.prepack,
        "whole_s": choice.whole_s,
        "speedup_bound": choice.speedup_bound,
        "found": [
            {
                "method": answer.method,
                "children": answer.children,
                "makespan_s": answer.makespan_s,
                "gap": answer.gap,
                "measured_s": answer.measured_s,
            }
            for answer in choice.results
        ],
    }


def _describe_choice(choice: Choice) -> str:
    """What was chosen and why, in a line."""
    chosen = choice.chosen
    if chosen.measured_s is None:
        return f"{chosen.method}, the soonest as predicted from its blocks."
    return (
        f"{chosen.method}, as measured; of those within {ABOUT_AS_SOON - 1:.0%} of the soonest, the"
        " one of fewest children. Predicted times are sums of what its blocks took one by one."
    )
