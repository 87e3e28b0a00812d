"""One device of the simulation: its state machine, its durations, and the pieces it holds."""

from __future__ import annotations

from partita.execution import Durations, Machine
from partita.program import (
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    Load,
    Program,
    Receive,
    Send,
    Step,
    Stream,
)


class SimulatedDevice:
    """A machine with what the virtual clock must know of its steps.

    A piece takes memory from when its writer starts (for received pieces: from their arrival)
    until its last reader is done.

    Attributes:
        seconds_of: Per step id; of a ``Send``, its encoding.
        stream_sent: Per ``Send`` step id.
        bytes_of_compute: What a ``Compute`` step writes, per step id.
        bytes_of_stream: What a received piece takes, per stream id.
        feed_bytes: What the inputs of one request take.
        peak_bytes: Most bytes of pieces held so far.
    """

    def __init__(
        self,
        part: DeviceProgram,
        program: Program,
        durations: Durations,
        in_flight: int,
        *,
        loaders: int = 1,
    ) -> None:
        streams = [s for s in program.streams if part.device in (s.source, s.target)]
        by_id = {stream.id: stream for stream in streams}
        self.name = part.device
        self.machine = Machine(part, streams, in_flight, loaders=loaders)
        self.seconds_of = {step.id: _seconds(step, durations) for step in part.steps}
        self.stream_sent: dict[int, Stream] = {
            step.id: by_id[step.stream] for step in part.steps if isinstance(step, Send)
        }
        self._bytes_of = {buffer.id: buffer.size_bytes for buffer in part.buffers}
        self.bytes_of_compute: dict[int, int] = {}
        self.bytes_of_stream: dict[int, int] = {}
        self.feed_bytes = 0
        for step in part.steps:
            if isinstance(step, Compute):
                self.bytes_of_compute[step.id] = sum(self._bytes_of[b] for b in step.writes)
            elif isinstance(step, Receive):
                self.bytes_of_stream[step.stream] = self._bytes_of[step.write]
            elif isinstance(step, Feed):
                self.feed_bytes += self._bytes_of[step.write]
        self.live_bytes = 0
        self.peak_bytes = 0

    def hold(self, nbytes: int) -> None:
        """Note that ``nbytes`` more are in use."""
        self.live_bytes += nbytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes

    def drop(self, buffer: int) -> None:
        """Note that a buffer of some request was freed."""
        self.live_bytes -= self._bytes_of[buffer]


def _seconds(step: Step, durations: Durations) -> float:
    if isinstance(step, Compute):
        return durations.compute_s[step.id]
    if isinstance(step, Receive):
        return durations.receive_s.get(step.id, 0.0)
    if isinstance(step, Send):
        return durations.encode_s.get(step.id, 0.0)
    if isinstance(step, Load):
        return durations.load_s.get(step.id, 0.0)
    return durations.deliver_s if isinstance(step, Deliver) else 0.0
