"""``partita demo``: the main job end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli import flags
from partita.cli.flags import flag, number, refuse_given


def demo(
    context: typer.Context,
    seed: flags.SeedOpt = 0,
    plates: Annotated[int, number("--plates", 1, 4, "Number plates, 1 to 4.")] = 3,
    planner: Annotated[str, flag("--planner", "Method that divides.")] = "best",
    runs: Annotated[int, number("--runs", 1, 10_000, "Measured runs of each plan.")] = 10,
    report: Annotated[Path, flag("--report", "Folder for photo, report and trace.")] = Path("out"),
    video: Annotated[
        Path | None,
        flag("--video", "Only write a drawn video, the detector and the cluster into a folder."),
    ] = None,
    frames: Annotated[int, number("--frames", 1, 10_000, "Frames of the video.")] = 50,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Read number plates with a detector divided over four unequal emulated devices."""
    if video is None:
        refuse_given(context, ("frames",), "needs --video")
    else:
        refuse_given(context, ("plates", "planner", "runs", "report"), "does not go with --video")
    from partita.cli.actions.demo import DemoOptions, show_demo, write_video

    if video is not None:
        return write_video(video, frames, seed, as_json=json)
    options = DemoOptions(seed=seed, plates=plates, runs=runs, planner=planner)
    return show_demo(options, report, as_json=json)
