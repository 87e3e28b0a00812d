"""Messages that are passed on: what one costs among others, and what a run of a fragment does.

Between two devices that are otherwise idle a message costs less than among those of a plan, where
all devices send and receive at the same time. So several messages go round all devices together,
each always on another link than the others. Where each device also runs a fragment that computes
next to nothing before it passes a message on, the difference is what runs cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from partita.cluster import Cluster
from partita.engine.one_node import one_node_model
from partita.fabric import Endpoint
from partita.leader.deployment import DeployOptions
from partita.leader.start import deploy
from partita.program import (
    Buffer,
    Compute,
    Deliver,
    DeviceProgram,
    Feed,
    FragmentInfo,
    Input,
    Load,
    Program,
    Receive,
    Send,
    Step,
    Stream,
    TensorSpec,
)
from partita.regions import Region

#: About the size of a few rows of a small network's tensor.
MESSAGE_BYTES = 16_384
#: What is deployed to be measured.
TRIAL = DeployOptions(is_trial=True)
#: Enough that the start and the end of a request count little.
LEAST_HOPS = 24
_WARM_UPS, _REPEATS = 2, 9
_TENSOR = "token"
_ITEMS = MESSAGE_BYTES // 4
#: The least that an engine can be asked for: one operator over a message.
_COPY = one_node_model("Abs", [(1, _ITEMS)], (1, _ITEMS))


class WithoutWeights:
    """A program whose fragments have no weights, ready to deploy.

    Args:
        program: What devices do.
        graphs: Its fragments' graphs.
    """

    def __init__(self, program: Program, graphs: Sequence[bytes] = ()) -> None:
        self.program = program
        self.graphs = {_digest(graph): graph for graph in graphs}
        self.blobs: dict[str, bytes] = {}


def can_relay(cluster: Cluster, names: Sequence[str]) -> bool:
    """Whether every device has a link to every other one."""
    return len(names) > 1 and all(cluster.link(a, b) for a in names for b in names if a != b)


def measure_relay_s(
    endpoint: Endpoint, paths: Sequence[Sequence[str]], *, computes: bool = False
) -> float:
    """The median seconds of a request whose messages go along ``paths``.

    Args:
        endpoint: A leader's, that reaches the workers.
        paths: See :func:`relay_paths`.
        computes: Whether each device runs a fragment on a message that it receives.

    Raises:
        RunError: A worker is missing or does not answer.
    """
    inputs = {_TENSOR: np.zeros((len(paths), _ITEMS), np.float32)}
    relay = WithoutWeights(make_relay(paths, computes=computes), (_COPY,) if computes else ())
    with deploy(relay, endpoint, TRIAL) as session:
        session.run([inputs] * _WARM_UPS, in_flight=1)
        session.run([inputs] * _REPEATS, in_flight=1)
        return session.report().quantile_s(0.5)


def relay_paths(names: Sequence[str]) -> list[list[str]]:
    """The devices that each message visits: from the first one round and round, and back to it.

    >>> relay_paths(["a", "b"])[0][:4]
    ['a', 'b', 'a', 'b']
    """
    count = len(names)
    paths = []
    for first in range(1, count):
        path = [names[0]]
        place = first
        while len(path) <= LEAST_HOPS or path[-1] != names[0]:
            path.append(names[place % count])
            place += 1
        paths.append(path)
    return paths


def make_relay(paths: Sequence[Sequence[str]], *, computes: bool = False) -> Program:
    """The program that sends one part of its input along each path, and gives all of it back.

    Args:
        paths: The devices that each part visits.
        computes: Whether a device runs a fragment, which copies, on each part that it receives.
    """
    relay = _Relay(computes)
    requester = paths[0][0]
    whole = Region.full((len(paths), _ITEMS))
    start = relay.buffer(requester, whole, readers=len(paths))
    relay.add(requester, Feed(relay.number(), _TENSOR, start))
    ends = [relay.send_along(path, start, row) for row, path in enumerate(paths)]
    relay.add(requester, Deliver(relay.number(), (Input(_TENSOR, whole, tuple(ends)),)))
    spec = TensorSpec(_TENSOR, whole.shape, "float32")
    return Program(
        plan_hash="relay",
        model_hash="relay",
        requester=requester,
        inputs=(spec,),
        outputs=(spec,),
        streams=tuple(relay.streams),
        fragments=(FragmentInfo(_digest(_COPY), (), len(_COPY), 0),) if computes else (),
        devices=tuple(
            DeviceProgram(name, tuple(steps), tuple(relay.buffers[name]))
            for name, steps in relay.steps.items()
        ),
    )


@dataclass
class _Relay:
    computes: bool
    streams: list[Stream] = field(default_factory=list)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    buffers: dict[str, list[Buffer]] = field(default_factory=dict)
    numbers: int = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def add(self, device: str, step: Step) -> None:
        self.steps.setdefault(device, []).append(step)

    def buffer(self, device: str, box: Region, *, readers: int = 1) -> int:
        buffer = Buffer(self.number(), _TENSOR, box, "float32", readers)
        self.buffers.setdefault(device, []).append(buffer)
        return buffer.id

    def send_along(self, path: Sequence[str], start: int, row: int) -> int:
        """Add the steps of one message; return the buffer that it ends in."""
        box = Region(((row, row + 1), (0, _ITEMS)))
        held = start
        for source, target in pairwise(path):
            stream = Stream(
                len(self.streams), _TENSOR, box, "float32", source, target, "raw",
                MESSAGE_BYTES, 1,
            )  # fmt: skip
            self.streams.append(stream)
            self.add(source, Send(self.number(), stream.id, held))
            held = self.buffer(target, box)
            self.add(target, Receive(self.number(), stream.id, held))
            held = self.copy(target, box, held) if self.computes else held
        return held

    def copy(self, device: str, box: Region, source: int) -> int:
        if not any(isinstance(step, Load) for step in self.steps[device]):
            self.steps[device].insert(0, Load(self.number(), 0))
        copied = self.buffer(device, box)
        read = Input(_TENSOR, box, (source,))
        self.add(device, Compute(self.number(), "copy", 0, (read,), (copied,)))
        return copied


def _digest(graph: bytes) -> str:
    return hashlib.sha256(graph).hexdigest()
