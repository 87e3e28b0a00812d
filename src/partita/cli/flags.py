"""Arguments and flags that several verbs share, and the groups that actions take them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

Number = TypeVar("Number", int, float, int | None, float | None)
#: About 32 years: longer times are mistakes.
MOST_SECONDS = 10**9
MOST_REQUESTS = 10**6


def from_to(least: float, most: float) -> Callable[[Number], Number]:
    """A callback that refuses a flag's number outside a range, both ends allowed."""

    def check(value: Number) -> Number:
        if value is not None and not least <= value <= most:  # NaN is in no range
            raise typer.BadParameter(
                f"got {_plain(value)}, allowed: {_plain(least)} to {_plain(most)}"
            )
        return value

    return check


def list_given(context: typer.Context) -> list[str]:
    """The names of the command's parameters that the command line gave."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def refuse_given(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Refuse flags that would be ignored.

    Args:
        context: Of the command.
        names: Parameters of the command.
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
        estimator: Reads the profiles.
    """

    model: Path
    cluster: Path
    shapes: Sequence[str] | None
    profiles: Sequence[str] | None
    estimator: str


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
    """How workers are reached; ``workers`` is None where the cluster file decides."""

    workers: bool | None
    insecure: bool
    authority: Path | None
    certificate: Path | None
    key: Path | None


@dataclass(frozen=True)
class AdaptFlags:
    """When a drift has the plan changed, and who searches for how long."""

    threshold: float
    hold_s: float
    planner: str
    budget_s: float


ModelArg = Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX file.")]
PlanArg = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file from 'partita plan'.")]
ShapeOpt = Annotated[
    list[str] | None,
    typer.Option("--shape", help="Fix an input's shape: NAME=1x3x224x224. May be repeated."),
]
InputsOpt = Annotated[
    list[str] | None, typer.Option("--input", help="File, NAME=FILE, or directory.")
]
ClusterOpt = Annotated[Path, typer.Option("--cluster", help="Cluster file (TOML).")]
PlanClusterOpt = Annotated[
    Path | None, typer.Option("--cluster", help="Cluster file; the plan's own by default.")
]
PlanModelOpt = Annotated[
    Path | None, typer.Option("--model", help="ONNX file; the plan's own by default.")
]
ProfileOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        help="Measured profile: FILE for this machine, or DEVICE=FILE. May be repeated.",
    ),
]
EstimatorOpt = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="How profiles are read: table, linear, piecewise_linear, knn, regression, roofline.",
    ),
]
PlannerOpt = Annotated[str, typer.Option("--planner", help="Method that decides.")]
ObjectiveOpt = Annotated[
    str, typer.Option("--objective", help="latency, throughput, memory or energy.")
]
BudgetOpt = Annotated[
    float,
    typer.Option(
        "--budget",
        callback=from_to(0, MOST_SECONDS),
        help="Seconds of computing that a search may take.",
    ),
]
SeedOpt = Annotated[
    int,
    typer.Option(
        "--seed", callback=from_to(0, 2**63 - 1), help="Seed of everything that is drawn."
    ),
]
InFlightOpt = Annotated[
    int | None,
    typer.Option(
        "--in-flight",
        callback=from_to(1, 4096),
        help="Most requests under way at the same time.",
    ),
]
KeepOpt = Annotated[
    list[str] | None,
    typer.Option("--keep-on", help="Keep a tensor on a device: DEVICE=TENSOR. May be repeated."),
]
WireOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--wire",
        help="Let a tensor travel lossy: TENSOR=float16, uint8, uint6, uint4 or uint2.",
    ),
]
CompressOpt = Annotated[
    str | None,
    typer.Option(
        "--compress",
        help="Let tensors travel in this format where it is faster: float16, uint8... or none.",
    ),
]
AxesOpt = Annotated[
    list[str] | None,
    typer.Option("--axis", help="Divide along this axis only: rows, tiles or output_channels."),
]
EnergyOpt = Annotated[
    list[str] | None,
    typer.Option("--energy-limit", help="Most joules per request: DEVICE=JOULES. Repeatable."),
]
SetOpt = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a planner's setting: PLANNER.SETTING=VALUE. Repeatable."),
]
TrainableOpt = Annotated[
    list[str] | None,
    typer.Option("--trainable", help="Layer that may be trained; may be repeated."),
]
ThreadsOpt = Annotated[
    int, typer.Option("--threads", callback=from_to(1, 256), help="Within one operator.")
]
AdaptOpt = Annotated[
    bool,
    typer.Option("--adapt", help="Watch links and step times; change the plan when they drift."),
]
ThresholdOpt = Annotated[
    float,
    typer.Option(
        "--threshold",
        callback=from_to(0.01, 1e6),
        help="Drift that counts, as a fraction, up or down.",
    ),
]
HoldOpt = Annotated[
    float,
    typer.Option(
        "--hold",
        callback=from_to(0, MOST_SECONDS),
        help="Seconds that a drift must last before the search.",
    ),
]
ReplannerOpt = Annotated[str, typer.Option("--planner", help="Method that plans anew.")]
SearchBudgetOpt = Annotated[
    float,
    typer.Option(
        "--budget", callback=from_to(0, MOST_SECONDS), help="Seconds that a search may take."
    ),
]
TimeScaleOpt = Annotated[
    float,
    typer.Option(
        "--time-scale", callback=from_to(1e-6, 1e6), help="Let traces run so many times as fast."
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DebugOpt = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
InsecureOpt = Annotated[
    bool, typer.Option("--insecure", help="Reach workers beyond this machine without credentials.")
]
AuthorityOpt = Annotated[
    Path | None, typer.Option("--authority", help="Certificate of the authority (PEM).")
]
CertificateOpt = Annotated[
    Path | None, typer.Option("--certificate", help="This machine's certificate (PEM).")
]
KeyOpt = Annotated[Path | None, typer.Option("--key", help="Its private key (PEM).")]
