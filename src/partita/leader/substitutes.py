"""What goes on when a device is lost, of another network than what ran before: made beforehand."""

from __future__ import annotations

from collections.abc import Mapping

from partita.errors import PlanError
from partita.leader.deployment import Deployable
from partita.leader.losses import Lost
from partita.program import Program


class Substitutes:
    """Says what goes on without what is lost.

    Answers are the other network's from then on: that is for networks which were made to go on
    so, as separable ones that learned to answer without a group's messages.

    Args:
        first: What runs until then.
        by_device: By the device that is lost: what runs on others.

    Raises:
        PlanError: One needs the device itself, or differs in requester, inputs or outputs.
    """

    def __init__(self, first: Program, by_device: Mapping[str, Deployable]) -> None:
        self._by_device = dict(by_device)
        for device, substitute in self._by_device.items():
            program = substitute.program
            if device in _devices(program):
                raise PlanError(f"What goes on without device {device!r} computes on it.")
            for what in ("requester", "inputs", "outputs"):
                given, wanted = getattr(program, what), getattr(first, what)
                if given != wanted:
                    raise PlanError(
                        f"What goes on without device {device!r} has other {what}: {given}, not"
                        f" {wanted}."
                    )

    def __call__(self, lost: Lost) -> Deployable:
        """What a lost device has in its place, as far as that needs nothing that is lost.

        Raises:
            PlanError: There is none.
        """
        for device in reversed(lost.devices):
            substitute = self._by_device.get(device)
            if substitute is not None and not _needs(substitute.program, lost):
                return substitute
        raise PlanError(f"Nothing goes on without {lost}: none of what was given can.")


def _devices(program: Program) -> set[str]:
    return {part.device for part in program.devices}


def _needs(program: Program, lost: Lost) -> bool:
    pairs = {Lost.link(one.source, one.target).links[0] for one in program.streams}
    return bool(_devices(program) & set(lost.devices) or pairs & set(lost.links))
