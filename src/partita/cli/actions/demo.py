"""The main job end to end."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from partita.cli.output import Reply, check_folder, make_console, print_reply, say
from partita.demo.result import DemoOptions, describe_demo
from partita.demo.run import run_demo
from partita.demo.save import save_demo
from partita.demo.show import print_demo
from partita.demo.video import write_video_files

__all__ = ["DemoOptions", "show_demo", "write_video"]


def show_demo(options: DemoOptions, folder: Path, *, as_json: bool) -> int:
    """Run the demo, write its files into the folder and print it; 4 where answers differ."""
    check_folder(folder)
    result = run_demo(options, say=say)
    files = save_demo(result, folder)
    code = 0 if result.is_exact else 4
    if as_json:
        return print_reply(Reply(describe_demo(result), exit_code=code), as_json=True)
    print_demo(result, make_console(), files)
    return code


def write_video(folder: Path, frames: int, seed: int, *, as_json: bool) -> int:
    """Write a drawn video, and what a plan that reads its plates is made of."""
    check_folder(folder)
    made = write_video_files(folder, frames, seed)
    shown = [f"{name.capitalize() + ':':<12} {path}" for name, path in asdict(made).items()]
    return print_reply(Reply(asdict(made), [*shown]), as_json=as_json)
