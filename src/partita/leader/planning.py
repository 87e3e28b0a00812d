"""What the leader asks of whoever plans for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from partita.execution.adapt import Conditions, Proposed
from partita.leader.bench import WorkerBench
from partita.leader.deployment import Deployable
from partita.leader.losses import Lost
from partita.leader.rate_monitor import Expected
from partita.program import Program
from partita.worker.messages import Info


class SparePlanning(Protocol):
    """Plans for losses that have not happened; injected, as the leader itself knows no planner."""

    def stand_by(self, plan_hash: str, lost: Lost, *, search: bool) -> Deployable:
        """What takes over from a plan when ``lost`` is all that is lost.

        Args:
            plan_hash: Of a plan that ran or was proposed.
            search: Whether to look for better than what is there at once.

        Raises:
            PlanError: What is left cannot run the network.
        """


class Planning(SparePlanning, Protocol):
    """Searches and compiles plans; injected, because the leader itself knows no planner."""

    @property
    def key(self) -> str:
        """Identity of the running plan."""

    @property
    def stood_by(self) -> bool:
        """Whether the running plan is one that took over for a loss without a search."""

    @property
    def assumed(self) -> Conditions:
        """The conditions that the running plan was priced with."""

    def propose(self, conditions: Conditions) -> Proposed:
        """Search for a plan for measured conditions; may take long."""

    def compile(self, key: str) -> Deployable:
        """The program and content of a plan that was proposed, or that ran before."""

    def expect(self, key: str) -> Expected:
        """The durations of a plan's links and steps."""

    def held_bytes(self, programs: Sequence[Program]) -> Mapping[str, int]:
        """What each device holds with programs of :meth:`compile` at the same time."""

    def adopt(self, key: str) -> None:
        """Set the running plan."""

    @property
    def roster(self) -> Sequence[str]:
        """The names of all devices that may take part, there or not."""

    def may_join(self, device: str) -> bool:
        """Whether a device is of the roster, or strangers may be."""

    def admit(
        self, info: Info, bench: Callable[[], WorkerBench], check: Callable[..., None]
    ) -> None:
        """Take a stranger into the roster, priced as strangers are; may take long.

        Args:
            info: What its worker says of itself.
            bench: The worker as what a model is measured on, where nothing says how fast it is.
            check: Called on and on meanwhile; what it raises ends that.

        Raises:
            PartitaError: It cannot be priced.
        """

    def set_lost(self, lost: Lost) -> None:
        """Let later searches do without ``lost``, and with all else."""

    def key_of(self, plan_hash: str) -> str:
        """Identity of a plan, by the hash that its program has."""

    def take_over(self, key: str, lost: Lost) -> None:
        """Set the running plan, and what later searches do without."""
