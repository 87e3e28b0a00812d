"""Arguments and flags that several verbs share, and the groups that actions take them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

#: About 32 years: longer times are mistakes.
MOST_SECONDS = 10**9
MOST_REQUESTS = 10**6
#: Seconds of a search after a drift, and after a loss. Not tuned.
DRIFT_BUDGET_S, LOSS_BUDGET_S = 3.0, 0.5


class LogFormat(StrEnum):
    """How what happens is told on stderr."""

    TEXT = "text"
    JSON = "json"


def flag(name: str, text: str, short: str = "") -> Any:
    """A flag with its help text; ``--on/--off`` names both ways of a switch."""
    return typer.Option(*([short] if short else []), name, help=text)


def number(name: str, least: float, most: float, text: str) -> Any:
    """A flag of a number with its help text; what is out of range, ends allowed, is refused."""

    def check(value: float | None) -> float | None:
        if value is not None and not least <= value <= most:  # NaN is in no range
            allowed = f"{_plain(least)} to {_plain(most)}"
            raise typer.BadParameter(f"got {_plain(value)}, allowed: {allowed}")
        return value

    return typer.Option(name, callback=check, help=text)


def list_given(context: typer.Context) -> list[str]:
    """The names of the command's parameters that the command line gave."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def refuse_given(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Refuse flags that would be ignored.

    Args:
        why: The end of a sentence that begins with the flag.

    Raises:
        typer.BadParameter: One of them was given.
    """
    given = list_given(context)
    for name in names:
        if name in given:
            raise typer.BadParameter(f"--{name.replace('_', '-')} {why}")


def _plain(number: float) -> str:
    return f"{number:.15g}" if abs(number) < 1e15 else str(number)


@dataclass(frozen=True)
class ModelFiles:
    """A model on a cluster, and how its costs are read.

    Attributes:
        shapes: Free dimensions: texts ``NAME=1x3x224x224``.
        profiles: Measured ones: texts ``FILE`` or ``DEVICE=FILE``.
        bits: File with the bits of layers; None leaves them as they are.
        kernels: What quantised layers run on, ``integer`` or ``float``; None for the usual.
    """

    model: Path
    cluster: Path
    shapes: Sequence[str] | None
    profiles: Sequence[str] | None
    estimator: str
    bits: Path | None = None
    kernels: str | None = None


@dataclass(frozen=True)
class PlanFiles:
    """A plan, with what :class:`ModelFiles` has; files that are None are the plan's own.

    Attributes:
        time_scale: Traces of links run so many times as fast.
    """

    plan: Path
    model: Path | None
    cluster: Path | None
    shapes: Sequence[str] | None
    profiles: Sequence[str] | None = None
    estimator: str = "table"
    time_scale: float = 1.0


@dataclass(frozen=True)
class RequestFlags:
    """The requests of a run: what files hold, or else ``count`` of them drawn from a seed."""

    files: Sequence[str] | None
    count: int
    seed: int


@dataclass(frozen=True)
class AccessFlags:
    """How workers are reached.

    Attributes:
        workers: None where the cluster file decides.
        engine: What places and starts them; None for what runs already, or is emulated.
        site: Folder whose join files they get from it.
    """

    workers: bool | None
    insecure: bool
    authority: Path | None
    certificate: Path | None
    key: Path | None
    join: Path | None = None
    engine: str | None = None
    site: Path | None = None


@dataclass(frozen=True)
class AccuracyFlags:
    """What bits may cost.

    Attributes:
        samples: Where they are: texts ``DIR``, ``FILE`` or ``NAME=DIR``; none leaves all as it is.
        drop: Most that may be lost, such as ``5%``; None for the usual part.
        judge: A rule's name or the user's function, ``MODULE:FUNCTION``; None for what fits.
        measure: What errors the search goes by, a name; None for the usual one.
        pareto: File for all that there was to choose from; None writes none.
    """

    samples: Sequence[str] | None = None
    drop: str | None = None
    judge: str | None = None
    measure: str | None = None
    pareto: Path | None = None


@dataclass(frozen=True)
class PictureFlags:
    """How pictures become inputs, as texts; see :class:`partita.quantisation.pictures.Preparation`.

    Attributes:
        prepare: The user's function instead, ``MODULE:FUNCTION``.
    """

    resize: str | None
    crop: str | None
    color: str | None
    layout: str | None
    mean: str | None
    std: str | None
    prepare: str | None


@dataclass(frozen=True)
class StreamFlags:
    """A stream of inputs: where it comes from, how it is read, and where its answers go.

    Attributes:
        source: Folder, file, camera, address, or ``-``.
        sink: File of JSON lines, folder of arrays, or ``-``.
        follows: Whether a folder's later files are inputs, too.
        rate: Most inputs per second; None for all.
        when_full: ``drop`` or ``wait``; None for what fits the source.
        stall_s: Seconds without an input after which the stream is broken.
        on_bad: ``skip`` or ``stop``.
        classes: Likeliest classes to write; None writes all numbers.
        answer: The user's function of an answer, ``MODULE:FUNCTION``; None for none.
        pictures: How these become inputs.
    """

    source: str
    sink: str
    follows: bool
    rate: float | None
    when_full: str | None
    stall_s: float
    on_bad: str
    classes: int | None
    answer: str | None
    pictures: PictureFlags


@dataclass(frozen=True)
class AdaptFlags:
    """What changes the plan while it runs, a drift or a loss, and who searches for how long.

    Attributes:
        budget_s: Most seconds of a search; None for the usual number.
    """

    adapt: bool
    recover: bool
    threshold: float
    hold_s: float
    planner: str
    budget_s: float | None

    @property
    def search_s(self) -> float:
        """Most seconds of a search; few where only a lost device asks, as requests wait then."""
        usual = DRIFT_BUDGET_S if self.adapt else LOSS_BUDGET_S
        return usual if self.budget_s is None else self.budget_s


@dataclass(frozen=True)
class WatchFlags:
    """Where a run is shown while it goes on.

    Attributes:
        top: In the terminal.
        page: Port of a page on this machine; 0 for one that is free, None for no page.
    """

    top: bool = False
    page: int | None = None


ModelArg = Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX file.")]
PlanArg = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file from 'partita plan'.")]
ShapeOpt = Annotated[
    list[str] | None, flag("--shape", "Fix an input's shape: NAME=1x3x224x224. May be repeated.")
]
InputsOpt = Annotated[list[str] | None, flag("--input", "File, NAME=FILE, or directory.")]
ClusterOpt = Annotated[Path, flag("--cluster", "Cluster file (TOML).")]
PlanClusterOpt = Annotated[
    Path | None, flag("--cluster", "Cluster file; the plan's own by default.")
]
WorkersOpt = Annotated[
    bool | None,
    flag(
        "--workers/--lab",
        "Use running workers, or emulate the cluster here. By default workers where"
        " the cluster file gives addresses.",
    ),
]
PlanModelOpt = Annotated[Path | None, flag("--model", "ONNX file; the plan's own by default.")]
ProfileOpt = Annotated[
    list[str] | None,
    flag("--profile", "Measured profile: FILE for this machine, or DEVICE=FILE. May be repeated."),
]
EstimatorOpt = Annotated[
    str,
    flag(
        "--estimator",
        "How profiles are read: table, linear, piecewise_linear, knn, regression, roofline.",
    ),
]
PlannerOpt = Annotated[str, flag("--planner", "Method that decides.")]
ObjectiveOpt = Annotated[str, flag("--objective", "latency, throughput, memory or energy.")]
BudgetOpt = Annotated[
    float | None,
    number(
        "--budget",
        0,
        MOST_SECONDS,
        "Seconds of a search (--want: of all); by default it ends by itself, or after 60.",
    ),
]
SeedOpt = Annotated[int, number("--seed", 0, 2**63 - 1, "Seed of everything that is drawn.")]
InFlightOpt = Annotated[
    int | None, number("--in-flight", 1, 1000, "Most requests under way at the same time.")
]
KeepOpt = Annotated[
    list[str] | None,
    flag("--keep-on", "Keep a tensor on a device: DEVICE=TENSOR. May be repeated."),
]
WireOpt = Annotated[
    list[str] | None,
    flag(
        "--wire",
        "Let a tensor travel lossy: TENSOR=float16, uint8, uint6, uint4, uint3, uint2 or uint1.",
    ),
]
CompressOpt = Annotated[
    str | None,
    flag(
        "--compress",
        "Let tensors travel so where it is faster: float16, uint8, zlib, jpeg80... or none.",
    ),
]
AxesOpt = Annotated[
    list[str] | None,
    flag("--axis", "Divide along this axis only: rows, tiles, output_channels, input_channels."),
]
EnergyOpt = Annotated[
    list[str] | None, flag("--energy-limit", "Most joules per request: DEVICE=JOULES. Repeatable.")
]
SwapOpt = Annotated[
    bool, flag("--swap", "Let devices that swap hold more than their memory, at the time it costs.")
]
SetOpt = Annotated[
    list[str] | None,
    flag("--set", "Change a planner's setting: PLANNER.SETTING=VALUE. Repeatable."),
]
PlanSamplesOpt = Annotated[
    list[str] | None,
    flag("--samples", "Let layers have fewer bits: folder of samples, or NAME=FOLDER. Repeatable."),
]
DropOpt = Annotated[
    str | None, flag("--accuracy-drop", "Most that fewer bits may lose of the accuracy (5%).")
]
JudgeOpt = Annotated[
    str | None,
    flag("--judge", "labels, agreement, signal, or your own MODULE:FUNCTION of (run, data)."),
]
MeasureOpt = Annotated[
    str | None,
    flag("--measure", "Errors that the search goes by: noise, kl or output-mse of outputs; mse."),
]
KernelsOpt = Annotated[
    str | None, flag("--kernels", "What quantised layers run on: integer or float.")
]
TrainableOpt = Annotated[
    list[str] | None, flag("--trainable", "Layer that may be trained; may be repeated.")
]
ThreadsOpt = Annotated[int, number("--threads", 1, 256, "Within one operator.")]
AdaptOpt = Annotated[
    bool, flag("--adapt", "Watch links and step times; change the plan when they drift.")
]
RecoverOpt = Annotated[bool, flag("--recover", "Plan again on the rest when a device is lost.")]
ThresholdOpt = Annotated[
    float, number("--threshold", 0.01, 1e6, "Drift that counts, as a fraction, up or down.")
]
HoldOpt = Annotated[
    float, number("--hold", 0, MOST_SECONDS, "Seconds that a drift must last before the search.")
]
ReplannerOpt = Annotated[str, flag("--planner", "Method that plans anew.")]
SearchBudgetOpt = Annotated[
    float | None,
    number(
        "--budget",
        0,
        MOST_SECONDS,
        "Seconds that a search may take; 3 by default, 0.5 with --recover alone.",
    ),
]
TimeScaleOpt = Annotated[
    float, number("--time-scale", 1e-6, 1e6, "Let traces run so many times as fast.")
]
TopOpt = Annotated[bool, flag("--top", "Show devices, links and events in the terminal.")]
PageOpt = Annotated[
    int | None,
    number("--page", 0, 65_535, "Serve a live page at this port of this machine; 0: any free."),
]
JsonOpt = Annotated[bool, flag("--json", "Print one JSON object.")]
DebugOpt = Annotated[bool, flag("--debug", "Show the traceback of a failure.")]
InsecureOpt = Annotated[
    bool, flag("--insecure", "Reach workers beyond this machine without credentials.")
]
AuthorityOpt = Annotated[Path | None, flag("--authority", "Certificate of the authority (PEM).")]
CertificateOpt = Annotated[Path | None, flag("--certificate", "This machine's certificate (PEM).")]
KeyOpt = Annotated[Path | None, flag("--key", "Its private key (PEM).")]
LogFormatOpt = Annotated[
    LogFormat, flag("--log-format", "What is told, and the reply: text, or lines of JSON.")
]
OnOpt = Annotated[str | None, flag("--on", "Have workers placed and started by: ray.")]
SiteOpt = Annotated[
    Path | None, flag("--site", "Folder from 'partita keys init': its join files go to workers.")
]
JoinOpt = Annotated[
    Path | None, flag("--join", "Join file from 'partita keys', in place of other credentials.")
]
