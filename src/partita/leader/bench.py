"""A worker as the machine that a model is profiled on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

import msgspec

from partita.engine.base import Blob
from partita.engine.timing import (
    FragmentTimes,
    MachineTimes,
    TimingOrder,
    Timings,
    WireTimes,
)
from partita.errors import RunError
from partita.leader.push import push_contents
from partita.leader.worker_group import WorkerGroup
from partita.worker.messages import Info, Measure, Measured, OfEpoch

_POLL_S = 0.1
#: A worker of a slow board hashes the weights of several fragments within that.
_HASH_S = 120.0
#: Longest time for one order: an hour, for the slowest boards and the largest layers.
_MEASURE_S = 3600.0


class WorkerBench:
    """Times fragments on a worker; see :class:`partita.profile.bench.Bench`.

    All times of an emulated device are multiplied by its slow-down, those of the reference not:
    they say how fast the machine behind it is.

    Args:
        group: Workers, among them this one.
        info: What it said of itself.

    Raises:
        RunError: The worker is lost, or cannot be profiled.
    """

    def __init__(self, group: WorkerGroup, info: Info) -> None:
        self.device = info.name
        self.threads = info.threads
        self.provider = info.providers[0]
        self._group = group
        self._slow_down = info.slow_down
        self._epoch = 1 + secrets.randbits(61)
        facts = self._measure(None).facts
        assert facts is not None
        self.facts: MachineTimes = slow_facts(facts, info.slow_down)

    def time(
        self, order: TimingOrder, graphs: Mapping[str, bytes], blobs: Mapping[str, Blob]
    ) -> Timings:
        """What each fragment takes on the worker.

        Raises:
            RunError: The worker is lost, or refuses a fragment.
        """
        wanted = {name for fragment in order.fragments for name in fragment.blobs}
        contents = {**graphs, **{name: blobs[name] for name in wanted}}
        push_contents(self._group, (self.device, self._epoch), contents, _HASH_S)
        timings = self._measure(order).timings
        assert timings is not None
        return slow_timings(timings, self._slow_down)

    def close(self) -> None:
        """Let the worker drop what it was given."""
        self._group.tell(self.device, "retire", OfEpoch(self._epoch))

    def _measure(self, order: TimingOrder | None) -> Measured:
        self._group.tell(self.device, "measure", Measure(self._epoch, order))
        deadline_s = time.monotonic() + _MEASURE_S
        while time.monotonic() < deadline_s:
            result = self._group.ask(self.device, "measured", OfEpoch(self._epoch), Measured)
            if result.error:
                raise RunError(
                    f"Device {self.device!r} cannot be profiled: {result.error}",
                    device=self.device,
                )
            if not result.busy:
                return result
            time.sleep(_POLL_S)
        raise RunError(
            f"Device {self.device!r} did not time one part of the model within"
            f" {_MEASURE_S / 60:g} minutes.",
            device=self.device,
        )


def slow_timings(timings: Timings, factor: float) -> Timings:
    """What fragments take on a device that is ``factor`` times slower."""
    return Timings(
        tuple(
            FragmentTimes(
                load_s=times.load_s * factor,
                walls=tuple(seconds * factor for seconds in times.walls),
                used=tuple(seconds * factor for seconds in times.used),
                runs=tuple(
                    tuple(
                        msgspec.structs.replace(node, seconds=node.seconds * factor)
                        for node in nodes
                    )
                    for nodes in times.runs
                ),
            )
            for times in timings.fragments
        ),
        timings.paces,
    )


def slow_facts(facts: MachineTimes, factor: float) -> MachineTimes:
    """What a machine that is ``factor`` times slower takes; its reference stays."""
    wires = {
        wire: WireTimes(
            tuple((size, seconds * factor) for size, seconds in times.encode),
            tuple((size, seconds * factor) for size, seconds in times.decode),
        )
        for wire, times in facts.wires.items()
    }
    copy_s_per_byte = facts.copy_s_per_byte * factor
    return msgspec.structs.replace(facts, copy_s_per_byte=copy_s_per_byte, wires=wires)
