"""Builds programs by hand, step by step; every tensor has one axis of float32 rows."""

from __future__ import annotations

from dataclasses import dataclass

from partita.program import (
    Buffer,
    Choice,
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

When = tuple[Choice, ...]


@dataclass(frozen=True)
class Piece:
    """A buffer on a device."""

    device: str
    buffer: int
    tensor: str
    box: Region
    when: When = ()


class ProgramBuilder:
    """Collects steps; ids of each kind count from 0 over the whole program."""

    def __init__(
        self,
        devices: int = 1,
        *,
        in_flight: int = 1,
        routes: tuple[int, ...] = (),
        weight_bytes: int = 100,
    ) -> None:
        self.names = [f"d{index}" for index in range(devices)]
        self.in_flight = in_flight
        self.routes = routes
        self.shares: tuple[tuple[int, ...], ...] = ()
        self.weight_bytes = weight_bytes
        self.steps: dict[str, list[Step]] = {name: [] for name in self.names}
        self.made: list[tuple[Piece, list[int]]] = []
        self.streams: list[Stream] = []
        self.fragments: list[FragmentInfo] = []
        self.inputs: list[TensorSpec] = []
        self.outputs: list[TensorSpec] = []
        self.step_ids = 0

    def _step_id(self) -> int:
        self.step_ids += 1
        return self.step_ids - 1

    def _piece(self, device: str, tensor: str, box: Region, when: When = ()) -> Piece:
        piece = Piece(device, len(self.made), tensor, box, when)
        self.made.append((piece, []))
        return piece

    def _use(self, pieces: list[Piece], step: int) -> None:
        for piece in pieces:
            if step not in self.made[piece.buffer][1]:
                self.made[piece.buffer][1].append(step)

    def feed(self, tensor: str = "input", rows: int = 4) -> Piece:
        """Feed a model input whole on the first device."""
        piece = self._piece(self.names[0], tensor, Region(((0, rows),)))
        self.inputs.append(TensorSpec(tensor, (rows,), "float32"))
        self.steps[self.names[0]].append(Feed(self._step_id(), tensor, piece.buffer))
        return piece

    def compute(
        self,
        device: str,
        reads: list[list[Piece]],
        tensor: str,
        *,
        box: tuple[int, int] = (0, 4),
        when: When = (),
    ) -> Piece:
        """Read tensors, each assembled from its pieces on the device, and write one piece."""
        fragment = len(self.fragments)
        self.fragments.append(FragmentInfo("", (), 0, self.weight_bytes))
        self.steps[device].insert(0, Load(self._step_id(), fragment))
        piece = self._piece(device, tensor, Region((box,)), when)
        step = self._step_id()
        inputs = tuple(_input(pieces) for pieces in reads)
        self._use([piece for pieces in reads for piece in pieces], step)
        self.steps[device].append(
            Compute(step, f"make {tensor}", fragment, inputs, (piece.buffer,), when)
        )
        return piece

    def send(self, piece: Piece, target: str, *, credit: int = 1, when: When = ()) -> Piece:
        """Send a piece whole to another device and return the copy there."""
        when = tuple(sorted({*piece.when, *when}))
        stream = len(self.streams)
        nbytes = 4 * piece.box.size
        self.streams.append(
            Stream(
                stream, piece.tensor, piece.box, "float32", piece.device, target,
                "raw", nbytes, credit, when,
            )
        )  # fmt: skip
        step = self._step_id()
        self._use([piece], step)
        self.steps[piece.device].append(Send(step, stream, piece.buffer, when))
        copy = self._piece(target, piece.tensor, piece.box, when)
        self.steps[target].append(Receive(self._step_id(), stream, copy.buffer, when))
        return copy

    def deliver(self, outputs: list[list[Piece]]) -> None:
        """Deliver outputs, each assembled from its pieces on the first device."""
        step = self._step_id()
        inputs = tuple(_input(pieces) for pieces in outputs)
        for read in inputs:
            self.outputs.append(TensorSpec(read.tensor, (read.box.bounds[0][1],), "float32"))
        self._use([piece for pieces in outputs for piece in pieces], step)
        self.steps[self.names[0]].append(Deliver(step, inputs))

    def build(self) -> Program:
        """Return the program of all steps so far."""
        devices = tuple(
            DeviceProgram(
                name,
                tuple(self.steps[name]),
                tuple(
                    Buffer(piece.buffer, piece.tensor, piece.box, "float32", len(readers))
                    for piece, readers in self.made
                    if piece.device == name
                ),
            )
            for name in self.names
        )
        return Program(
            "", "", self.names[0], tuple(self.inputs), tuple(self.outputs), tuple(self.streams),
            tuple(self.fragments), devices, self.routes, self.in_flight, self.shares,
        )  # fmt: skip


def _input(pieces: list[Piece]) -> Input:
    box = pieces[0].box
    for piece in pieces[1:]:
        box = box.hull(piece.box)
    return Input(pieces[0].tensor, box, tuple(piece.buffer for piece in pieces))


def chain(stages: int, devices: int, *, in_flight: int = 1, credit: int = 1) -> Program:
    """Return a chain of stages, dealt to the devices in turn, with the answer back on the first."""
    build = ProgramBuilder(devices, in_flight=in_flight)
    piece = build.feed()
    for stage in range(stages):
        device = build.names[stage % devices]
        if piece.device != device:
            piece = build.send(piece, device, credit=credit)
        piece = build.compute(device, [[piece]], f"t{stage}")
    if piece.device != build.names[0]:
        piece = build.send(piece, build.names[0], credit=credit)
    build.deliver([[piece]])
    return build.build()
