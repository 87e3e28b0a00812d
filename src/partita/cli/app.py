"""All verbs under one roof, and what happens when one of them fails."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer

from partita.cli.commands.check import check
from partita.cli.commands.compare import compare
from partita.cli.commands.demo import demo
from partita.cli.commands.doctor import doctor
from partita.cli.commands.drain import drain
from partita.cli.commands.export import export
from partita.cli.commands.inspect import inspect
from partita.cli.commands.install_worker import install_worker
from partita.cli.commands.keys import keys
from partita.cli.commands.lab import lab
from partita.cli.commands.load import load
from partita.cli.commands.manifests import manifests
from partita.cli.commands.plan import plan
from partita.cli.commands.profile import profile
from partita.cli.commands.quantize import quantize
from partita.cli.commands.reproduce import reproduce
from partita.cli.commands.router import router
from partita.cli.commands.run import run
from partita.cli.commands.separable import separable
from partita.cli.commands.serve import serve
from partita.cli.commands.simulate import simulate
from partita.cli.commands.top import top
from partita.cli.commands.whatif import whatif
from partita.cli.commands.worker import worker
from partita.cli.commands.zoo import zoo
from partita.cli.interrupt import INTERRUPTED, heed_postponed, is_interrupted, leave
from partita.cli.output import json_lines, report_error, say, show_log
from partita.errors import InputError, PartitaError, RunError, how_to_install, name_error
from partita.version import VERSION

app = typer.Typer(
    name="partita",
    help="Run one neural network on many small machines: plan, predict, run, check.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
#: In the order of the help.
VERBS = (
    *(demo, inspect, profile, quantize, plan, compare, whatif, simulate, run, serve, top, check),
    *(export, worker, install_worker, router, lab, drain, manifests, zoo, reproduce, doctor),
)
for verb in VERBS:
    app.command(verb.__name__.replace("_", "-"))(verb)
app.add_typer(load)
app.add_typer(keys)
app.add_typer(separable)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"partita {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run one neural network on many small machines: plan, predict, run, check."""


#: What parts of the program need that the core installation has not: module, part, its extra.
_PARTS = {
    **dict.fromkeys(("onnx", "scipy", "matplotlib", "PIL", "networkx"), ("planning", "plan")),
    "cryptography": ("keys", "keys"),
    "ray": ("Ray", "ray"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    **dict.fromkeys(("torch", "safetensors"), ("training", "train")),
    **dict.fromkeys(("starlette", "uvicorn", "httptools"), ("serving", "serve")),
}


def run_process() -> int:
    """Run the command line as a process of its own, whose garbage the system takes."""
    code = leave(main())
    gc.freeze()
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 2 bad input, 3 no feasible plan, 4 a run failed, 130 interrupted. Errors are
    one line on stderr, or one JSON object on stdout with ``--json``; ``--debug`` adds the
    traceback, and those of failures that a run survives.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with json_lines() if _wants_lines(words) else nullcontext():
        return _run(words)


def _wants_lines(words: Sequence[str]) -> bool:
    """Whether ``--log-format json`` is given; known before anything can be told."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    return "--log-format=json" in words or ("--log-format", "json") in pairs


def _run(words: Sequence[str]) -> int:
    as_json, debug = "--json" in words, "--debug" in words
    try:
        with show_log(logging.DEBUG) if debug else nullcontext():
            heed_postponed()
            code = int(app(words, prog_name="partita", standalone_mode=False) or 0)
        if code == INTERRUPTED:  # Typer turns Ctrl-C into this code without a word
            say("partita: interrupted")
        return code
    except (KeyboardInterrupt, typer.Abort):
        say("partita: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except SystemExit as error:
        if error.code != 1:
            raise
        return 0  # Typer's for a pipe whose reader has enough
    except Exception as error:
        heed_postponed()  # it came first
        if is_interrupted(error):
            say("partita: interrupted")
            return INTERRUPTED
        if debug:
            raise
        return report_error(_as_partita_error(error), as_json=as_json)


def _as_partita_error(error: Exception) -> PartitaError:
    """Any failure as one of ours; what nobody foresaw says how to see more."""
    if isinstance(error, PartitaError):
        return error
    if isinstance(error, ModuleNotFoundError):
        part, extra = _PARTS.get((error.name or "").partition(".")[0], ("", ""))
        if part:
            return _usage(f"This command needs the {part} part: {how_to_install(extra)} ({error}).")
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = "partita" if context is None else context.command_path
        return _usage(f"{error.format_message().rstrip('.?')}. See '{path} --help'.")
    if isinstance(error, MemoryError):
        return RunError(f"There is not enough memory: {error or 'none is left'}.")
    if isinstance(error, OSError) and error.strerror:
        where = f" '{error.filename}'" if error.filename else ""
        return InputError(f"File{where} cannot be used: {error.strerror}.")
    return PartitaError(
        f"Unexpected failure: {name_error(error)}. Run again with --debug to see where."
    )


def _usage(message: str) -> PartitaError:
    error = PartitaError(message, subject="command line")
    error.exit_code, error.kind = 2, "usage"
    return error
