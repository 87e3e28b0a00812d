"""Every error that Partita raises on purpose.

::

    PartitaError
    ├── ModelError      the ONNX file, or what is asked of it        exit 2
    ├── ClusterError    the cluster file, profiles, device names      exit 2
    ├── BundleError     a bundle of child models                      exit 2
    ├── InputError      the data given to a run                       exit 2
    │   └── NotServedError    no such model is served                  exit 2
    ├── PlanError       a plan that breaks a rule, or fits no model   exit 2
    │   └── InfeasibleError   no plan satisfies the constraints       exit 3
    │       ├── OverfullError   a plan needs more memory than there is  exit 3
    │       └── UnfinishedError   time ended a search without a plan    exit 3
    ├── BusyError       there is no room for another request now      exit 4
    └── RunError        something failed while a plan ran             exit 4
        └── LinkError       a device cannot be reached any more       exit 4
            ├── NamesakeError     two workers have the device's name    exit 4
            └── EndpointError     what computes in its place is lost    exit 4
"""

from __future__ import annotations

from collections.abc import Mapping


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")


def name_error(error: BaseException) -> str:
    """An error's type and the first line of its text, where it has any, without a full stop.

    >>> name_error(ValueError("no such thing.")), name_error(SystemExit())
    ('ValueError: no such thing', 'SystemExit')
    """
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line}"


class PartitaError(Exception):
    """Root of the family: one line for people, and the subject as an attribute.

    Args:
        message: One sentence: subject, rule broken, what was got, what is allowed.
        subject: The file, key, layer, device or step that the message is about.
    """

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, subject: str = "") -> None:
        # What it quotes, such as a name in a damaged file, may hold line breaks.
        self.message = " ".join(message.splitlines())
        super().__init__(self.message)
        self.subject = subject


class ModelError(PartitaError):
    """The model cannot be read, or lacks what was asked of it.

    Names in a file may hold any character: those that would break the line are replaced.
    """

    exit_code = 2
    kind = "model"

    def __init__(self, message: str, *, subject: str = "") -> None:
        line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in message)
        super().__init__(line, subject=subject)


class ClusterError(PartitaError):
    """The cluster description or a profile breaks a rule."""

    exit_code = 2
    kind = "cluster"


class BundleError(PartitaError):
    """A bundle of child models is damaged, foreign, or cannot be made as asked."""

    exit_code = 2
    kind = "bundle"


class InputError(PartitaError):
    """Data given to a run has the wrong name, shape or type."""

    exit_code = 2
    kind = "input"


class NotServedError(InputError):
    """A request names a model, or a version of one, that is not served."""


class PlanError(PartitaError):
    """A plan breaks a rule, or belongs to another model or cluster."""

    exit_code = 2
    kind = "plan"


class InfeasibleError(PlanError):
    """No plan satisfies the constraints.

    Args:
        message: One sentence that says which, and what would help.
        is_proven: Whether there is none; else none was found.
    """

    exit_code = 3
    kind = "infeasible"

    def __init__(self, message: str, *, subject: str = "", is_proven: bool = False) -> None:
        super().__init__(message, subject=subject)
        self.is_proven = is_proven


class OverfullError(InfeasibleError):
    """A plan, or the nearest one that a search found, needs more memory than its devices have.

    Another plan may fit: where none can, the error is an :class:`InfeasibleError` that is none of
    these.

    Args:
        message: One sentence that names the device which lacks most, what it needs and has.
        overflow_bytes: What is missing, by device; only devices on which something is.
        nearest: Of a search, what the nearest plan lacks, for a sentence.
    """

    def __init__(
        self, message: str, *, overflow_bytes: Mapping[str, int], nearest: str = ""
    ) -> None:
        super().__init__(message, subject=max(overflow_bytes, key=overflow_bytes.__getitem__))
        self.overflow_bytes = dict(overflow_bytes)
        self.nearest = nearest


class UnfinishedError(InfeasibleError):
    """A search ended by its time, before it found a plan to take.

    A longer one may: nothing is proven.
    """


class BusyError(PartitaError):
    """There is no room for another request now; later there may be."""

    exit_code = 4
    kind = "busy"


class RunError(PartitaError):
    """A run failed.

    Args:
        message: One sentence naming device, step and request where known.
        device: The device that failed or that is missing.
        step: The step that could not finish.
        request: The request that got no answer, counted from 0.
    """

    exit_code = 4
    kind = "run"

    def __init__(
        self, message: str, *, device: str = "", step: str = "", request: int | None = None
    ) -> None:
        super().__init__(message, subject=device)
        self.device = device
        self.step = step
        self.request = request


class LinkError(RunError):
    """A device cannot be reached: it, or the way to it, is lost; ``device`` is that other end."""


class NamesakeError(LinkError):
    """Two workers have the name of ``device``: either would take what is meant for the other."""


class EndpointError(LinkError):
    """What is served elsewhere, and computes in the place of ``device``, does not answer."""


def how_to_install(extra: str) -> str:
    """What to type for the packages of an extra; Partita itself is on no package index.

    >>> how_to_install("plan")
    "in a checkout of Partita, pip install '.[plan]'"
    """
    return f"in a checkout of Partita, pip install '.[{extra}]'"
