"""What searching and training share: settings, pictures, folders, accounts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from partita.cli.actions.separable_flags import naming_flags
from partita.cli.output import check_folder, say
from partita.cli.sources import parse_pairs
from partita.errors import InputError, RunError
from partita.planners.settings import read_settings
from partita.separable import checkpoint
from partita.separable.architecture import Architecture
from partita.separable.converted import Converted
from partita.separable.data import Dataset, find_dataset
from partita.separable.fitting import Fitting
from partita.separable.logs import Log
from partita.separable.options import Setting, find_setting
from partita.separable.policy import Policy, count_windows
from partita.separable.residual import ResidualNetwork
from partita.separable.traffic import count_traffic
from partita.separable.training import Tell
from partita.units import format_bytes, format_seconds

#: What a folder holds to go on from.
STATE = "state.safetensors"


@dataclass(frozen=True)
class FormFlags:
    """The network and how it is trained: a setting's name, and what is to be other than there.

    Attributes:
        changes: Texts ``search.NAME=VALUE`` or ``train.NAME=VALUE``.
    """

    setting: str
    changes: Sequence[str]
    depth: int | None
    cardinality: int | None
    width: int | None
    groups: int | None
    alpha: int | None

    def read(self) -> Setting:
        """The setting with its changes.

        Raises:
            InputError: There is no such setting, or a value is out of range.
            PlanError: There is no such number to change, or a value is none.
        """
        setting = find_setting(self.setting)
        given = parse_pairs("--set", self.changes)
        for key in given:
            if key.partition(".")[0] not in ("search", "train"):
                raise InputError(
                    f"--set {key}: allowed are search.NAME and train.NAME.", subject=key
                )
        asked: dict[str, Any] = {
            "depth": self.depth,
            "cardinality": self.cardinality,
            "width": self.width,
            "groups": self.groups,
            "staleness": self.alpha,
        }
        return replace(
            setting,
            search=read_settings(setting.search, "search", given),
            train=read_settings(setting.train, "train", given),
            **{name: value for name, value in asked.items() if value is not None},
        )


@dataclass(frozen=True)
class RunFlags:
    """What a run is on, and where it is kept.

    Attributes:
        weights: Checkpoint to begin with; None draws from the seed.
        threads: None for all cores.
        resume: Whether it goes on with what the folder has.
    """

    data: str
    output: Path
    weights: Path | None
    drop_messages: float
    seed: int
    threads: int | None
    resume: bool
    tensorboard: bool

    def prepare(self) -> Path:
        """Set the threads, and return the file to go on from, once nothing speaks against it.

        Raises:
            InputError: The folder cannot be used, has a run already, or has none to go on with.
        """
        check_folder(self.output)
        state = self.output / STATE
        if self.resume and not state.exists():
            raise InputError(
                f"--resume: '{self.output}' has no run to go on with.", subject=str(self.output)
            )
        if not self.resume and state.exists():
            raise InputError(
                f"Folder '{self.output}' has a run already: go on with --resume, or name another.",
                subject=str(self.output),
            )
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return state

    def read_data(self, network: ResidualNetwork) -> tuple[ResidualNetwork, Dataset]:
        """The pictures, and the network with as many classes as they have.

        Raises:
            InputError: There are no pictures, or a converted network takes others.
        """
        data = find_dataset(self.data)
        if isinstance(network, Architecture):
            network = replace(network, classes=data.classes)
        elif network.image != (shape := data.train.images.shape[1:]):
            raise InputError(
                f"{network} takes {_join(network.image)}, pictures of --data are {_join(shape)}.",
                subject=self.data,
            )
        elif network.classes < data.classes:
            raise InputError(
                f"{network} has {network.classes} outputs, --data has {data.classes} classes.",
                subject=self.data,
            )
        return network, data

    @property
    def log_folder(self) -> Path | None:
        """Where event files go, if anywhere."""
        return self.output / "tensorboard" if self.tensorboard else None


def _join(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


def find_network(
    form: FormFlags, setting: Setting, weights: Path | None, *, groups: int | None = None
) -> ResidualNetwork:
    """The network of a setting, classes apart; a converted one where weights are of one.

    Raises:
        InputError: Flags would change a converted network.
        ModelError: Numbers do not go together.
    """
    if weights is not None and isinstance(found := checkpoint.load(weights)[0], Converted):
        for name in ("depth", "cardinality", "width", "groups"):
            if getattr(form, name) is not None:
                raise InputError(
                    f"--{name} changes nothing of --from {weights}, which is a converted network:"
                    " leave it out.",
                    subject=f"--{name}",
                )
        network: ResidualNetwork = found
    else:
        with naming_flags():
            network = Architecture(
                setting.depth, setting.cardinality, setting.width, groups or setting.groups
            )
    with naming_flags():
        count_windows(network, setting.staleness)
    return network


@contextlib.contextmanager
def keeping(state: Path) -> Iterator[None]:
    """Say of a training that failed what is left of it; a folder that got nothing goes."""
    try:
        yield
    except RunError as error:
        with contextlib.suppress(OSError):  # it has something
            state.parent.rmdir()
        kept = f" '{state}' holds what was reached before." if state.exists() else ""
        raise RunError(f"{error}{kept}") from error


@dataclass(frozen=True)
class Clock:
    """When a run began: by the clock, and in processor time."""

    start_s: float
    start_processor_s: float

    @classmethod
    def start(cls) -> Clock:
        """Now."""
        return cls(time.perf_counter(), time.process_time())

    def facts(self) -> dict[str, float]:
        """Seconds since then, for JSON."""
        return {
            "seconds": time.perf_counter() - self.start_s,
            "processor_seconds": time.process_time() - self.start_processor_s,
        }

    def __str__(self) -> str:
        facts = self.facts()
        return (
            f"{format_seconds(facts['seconds'])}, {format_seconds(facts['processor_seconds'])} of"
            f" processor time, {torch.get_num_threads()} thread(s)"
        )


def fit(
    fitting: Fitting, state: Path, name: str, advance: Callable[[int, int, str], None], log: Log
) -> None:
    """Train what is left of a network, and tell of each epoch."""
    epochs = fitting.part.options.epochs

    def tell(done: int, total: int, what: str) -> None:
        advance(done, total, f"{name}: epoch {fitting.trainer.epoch + 1} of {epochs}")

    def done(epoch: int, loss: float) -> None:
        say(f"{name}: epoch {epoch} of {epochs}, loss {loss:.3f}")
        log(epoch, {f"{name}/loss": loss})

    with keeping(state):
        fitting.finish(state, done, tell)


def tell_round(advance: Callable[[int, int, str], None], name: str) -> Tell:
    """What shows how far a round is."""
    return lambda done, total, what: advance(done, total, f"{name}: {what}")


def describe_accounts(architecture: ResidualNetwork, policy: Policy) -> str:
    """What a policy sends for one image, by both accountings, in a line."""
    traffic = count_traffic(architecture, policy)
    if not traffic.payload_bytes:
        return "Sends:    nothing"
    unread = traffic.payload_bytes - traffic.needed_bytes
    left_out = f", {format_bytes(unread)} of it read by nobody and left out" if unread else ""
    return (
        f"Sends:    {traffic.share:.2%} of the ring's maps (as the paper counts), "
        f"{traffic.byte_share:.2%} of its bytes: {format_bytes(traffic.payload_bytes)} for an"
        f" image{left_out}"
    )
