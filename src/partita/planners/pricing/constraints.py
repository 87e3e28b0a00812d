"""What a plan must keep to: memory, but where devices may swap, and limits on energy."""

from __future__ import annotations

from operator import le

from partita.cluster import Cluster
from partita.compile import Layout, loaded_works
from partita.cost import MemoryUse
from partita.cost.arena import most_arena_bytes
from partita.cost.memory import MOST_COPIES, PROCESS_BYTES, SESSION_BYTES
from partita.errors import InfeasibleError, OverfullError, PlanError
from partita.planners.drafts.draft import Draft
from partita.planners.pricing.costs import StepCosts
from partita.planners.pricing.incremental import DraftPrice
from partita.planners.pricing.problem import Problem
from partita.units import format_bytes

#: How a message begins of a search that found nothing, and proved nothing.
NOTHING_FOUND = "No plan found"


class Constraints:
    """Checks prices of drafts, which is quick and safe, and layouts, which is exact."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arena_bytes = most_arena_bytes(problem.graph)
        devices, names = problem.cluster.devices, problem.cluster.names
        rest_bytes = self._arena_bytes + PROCESS_BYTES
        self._room_bytes = [device.memory_bytes - rest_bytes for device in devices]
        limits = problem.options.energy_limits
        self._limits = [(names.index(name), joules) for name, joules in limits.items()]

    def surely_allow(self, price: DraftPrice) -> bool:
        """Whether a draft keeps to all; where this says no, only its layout tells."""
        watts = self._problem.watts
        return all(map(le, price.load_bytes, self._room_bytes)) and all(
            price.busy_s[number] * watts[number] <= joules for number, joules in self._limits
        )

    def check_energy(self, layout: Layout) -> None:
        """Raise where a device spends more energy than it may.

        Raises:
            InfeasibleError: Names the device.
        """
        cost, limits = self._problem.cost, self._problem.options.energy_limits
        if not limits or not isinstance(cost, StepCosts):
            return
        for name, seconds in cost.busy_s(layout).items():
            used, most = seconds * cost.watts_busy(name), limits.get(name)
            if most is not None and used > most:
                raise InfeasibleError(
                    f"Plan asks too much energy of device '{name}': {used:.3g} J per request,"
                    f" allowed are {most:.3g} J. Raise its limit, or give work to other devices.",
                    subject=name,
                )

    def most_in_flight(self, layout: Layout) -> int:
        """How many requests under way memory may have room for, of as many as the layout has.

        Fewer have no larger shares each, but may have none smaller: whether so many fit is to be
        asked again. One where memory has no room: what then does not fit are not the requests. A
        device that swaps even with one sets no limit.
        """
        most = asked = layout.program.in_flight
        if asked == 1 or self._surely_fits(layout):
            return asked
        for name, use in self._problem.cost.memory(layout).items():
            size = self._problem.cluster.device(name).memory_bytes
            if use.total > size:
                room = (size - use.total + use.pieces) * asked // max(1, use.pieces)
                if room >= 1 or not self._problem.may_swap(name):
                    most = min(most, max(1, room))
        return most

    def check_memory(self, layout: Layout, *, needed: bool) -> dict[str, int]:
        """The memory that devices use; nothing where it surely suffices and none asks.

        Raises:
            OverfullError: A device has too little.
        """
        if not needed and self._surely_fits(layout):
            return {}
        used = {name: use.total for name, use in self._problem.cost.memory(layout).items()}
        cluster = self._problem.cluster
        over = cluster.overflow_bytes(used, swap=self._problem.options.swap)
        if over:
            name = max(over, key=over.__getitem__)
            has = cluster.device(name).memory_bytes
            raise OverfullError(
                f"Plan does not fit on device '{name}': needs {format_bytes(used[name])}, device"
                f" has {format_bytes(has)}. Move layers to other devices, or raise memory"
                " in the cluster file.",
                overflow_bytes=over,
            )
        return used

    def _surely_fits(self, layout: Layout) -> bool:
        program = layout.program
        for part in program.devices:
            works = loaded_works(layout, part)
            weights = sum(work.weight_bytes for work in works)
            pieces = sum(buffer.size_bytes for buffer in part.buffers)
            pieces *= program.in_flight + MOST_COPIES
            most = MemoryUse(len(works), weights, pieces, self._arena_bytes).total
            if most > self._problem.cluster.device(part.device).memory_bytes:
                return False
        return True


def nothing_fits(error: PlanError, draft: Draft, cluster: Cluster) -> InfeasibleError:
    """What to say where this is the error of the least bad of some drafts."""
    if not isinstance(error, OverfullError):
        return InfeasibleError(f"{NOTHING_FOUND}: {error.message}", subject=error.subject)
    over, name = error.overflow_bytes, error.subject
    has, least = cluster.device(name).memory_bytes, PROCESS_BYTES + SESSION_BYTES
    worker = f", a worker takes {format_bytes(least)} before any weights" if has < least else ""
    needs = f"has {format_bytes(has)} and would need {format_bytes(has + over[name])}"
    if len({device for stage in draft for device in stage.devices}) == 1:
        nearest = f"the nearest is the whole network on device '{name}', which {needs}{worker}"
    else:
        missing = format_bytes(sum(over.values()))
        most = f"on device '{name}'" if len(over) == 1 else f"most on device '{name}'"
        nearest = f"the nearest lacks {missing}, {most}, which {needs} for its part{worker}"
    return OverfullError(
        f"{NOTHING_FOUND} that fits in memory: {nearest}.",
        overflow_bytes=over,
        nearest=nearest,
    )
