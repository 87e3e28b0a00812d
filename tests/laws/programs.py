"""Hypothesis strategies: random programs over a few devices, and durations for them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st

from partita.execution import Durations, Link
from partita.program import Compute, Load, Program, Receive, Send
from partita.program.credits import drop_needless_credits
from tests.program_builder import Piece, ProgramBuilder, When

ROWS = 4
#: A source of choices that can be shrunk.
DICE = st.randoms(use_true_random=False)


@dataclass
class Pipeline:
    """A random program in the making: each stage reads one to three earlier tensors."""

    build: ProgramBuilder
    dice: random.Random
    max_credit: int
    owners: dict[str, list[Piece]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    copies: dict[tuple[int, str, When], Piece] = field(default_factory=dict)

    def local(self, tensor: str, device: str, when: When) -> list[Piece]:
        """Return the pieces of a tensor on a device, sending what is not there."""
        self.unread.discard(tensor)
        return [self._bring(piece, device, when) for piece in self.owners[tensor]]

    def _bring(self, piece: Piece, device: str, when: When) -> Piece:
        if piece.device == device:
            return piece
        key = (piece.buffer, device, when)
        if key not in self.copies:
            credit = (
                self.build.in_flight if self.build.routes else self.dice.randint(1, self.max_credit)
            )
            self.copies[key] = self.build.send(piece, device, credit=credit, when=when)
        return self.copies[key]

    def add_stage(self, number: int, group: int | None) -> None:
        """Add a stage: whole, in two parts, or (with a route group) as two replicas."""
        tensors = list(self.owners)
        tensor = f"t{number}"
        recent = tensors[-4:]
        reads = self.dice.sample(recent, self.dice.randint(1, min(3, len(recent))))
        parts: list[tuple[tuple[int, int], When]]
        if group is not None:
            parts = [((0, ROWS), ((group, alternative),)) for alternative in (0, 1)]
        elif self.dice.random() < 0.4:
            parts = [((0, ROWS // 2), ()), ((ROWS // 2, ROWS), ())]
        else:
            parts = [((0, ROWS), ())]
        pieces = []
        for box, when in parts:
            device = self.dice.choice(self.build.names)
            inputs = [self.local(read, device, when) for read in reads]
            pieces.append(self.build.compute(device, inputs, tensor, box=box, when=when))
        self.owners[tensor] = pieces
        self.unread.add(tensor)


def draw_shares(dice: random.Random, count: int) -> tuple[int, ...]:
    """Return shares of requests of so many replicas, sometimes none."""
    return () if dice.random() < 0.3 else tuple(dice.randint(1, 5) for _ in range(count))


def make_program(
    dice: random.Random, *, stages: int = 6, replicas: bool = False, unread: bool = False
) -> Program:
    """Return a random program; with ``unread``, some tensors have no reader."""
    groups = dice.randint(1, 2) if replicas else 0
    build = ProgramBuilder(dice.randint(1, 4), in_flight=dice.randint(1, 4), routes=(2,) * groups)
    if groups and dice.random() < 0.5:
        build.shares = tuple(draw_shares(dice, 2) for _ in range(groups))
    pipeline = Pipeline(build, dice, max_credit=3)
    for name in ("input", "other")[: dice.randint(1, 2)]:
        pipeline.owners[name] = [build.feed(name, ROWS)]
        pipeline.unread.add(name)
    count = dice.randint(max(1, groups), stages)
    routed = dict(zip(sorted(dice.sample(range(count), groups)), range(groups), strict=True))
    for number in range(count):
        pipeline.add_stage(number, routed.get(number))
    outputs = sorted(pipeline.unread)
    if unread and len(outputs) > 1:
        outputs = dice.sample(outputs, dice.randint(1, len(outputs)))
    build.deliver([pipeline.local(name, build.names[0], ()) for name in outputs])
    return build.build()


def make_durations(program: Program, dice: random.Random, *, medium: bool = False) -> Durations:
    """Return random durations from a coarse grid, so that many things happen at the same time."""
    steps = [step for part in program.devices for step in part.steps]
    names = [part.device for part in program.devices]

    def draw(kind: type, scale: float) -> dict[int, float]:
        return {s.id: scale * dice.randint(0, 4) for s in steps if isinstance(s, kind)}

    links = {
        (source, target): Link(
            source,
            target,
            dice.choice((4.0, 16.0, 1e9)),
            dice.choice((0.0, 0.5, 1.3)),
            dice.choice((0.0, 0.1)),
            medium="air" if medium and dice.random() < 0.7 else None,
            trace=dice.choice(((), ((3.0, 2.0), (7.5, 64.0)))),
        )
        for source in names
        for target in names
        if source != target
    }
    return Durations(
        draw(Compute, 1.0), draw(Receive, 0.25), draw(Send, 0.25), draw(Load, 0.5),
        deliver_s=0.25, feed_s=0.1, admit_s=0.2, links=links,
    )  # fmt: skip


@st.composite
def programs(
    draw: st.DrawFn, *, replicas: bool | None = None, unread: bool | None = None
) -> Program:
    """Draw programs over one to four devices with skips, several readers, parts and replicas."""
    routed = draw(st.booleans()) if replicas is None else replicas
    loose = draw(st.booleans()) if unread is None else unread
    program = make_program(draw(DICE), replicas=routed, unread=loose)
    return drop_needless_credits(program) if draw(st.booleans()) else program


@st.composite
def timed_programs(draw: st.DrawFn) -> tuple[Program, Durations]:
    """Draw programs with durations, sometimes with a shared medium."""
    program = draw(programs())
    return program, make_durations(program, draw(DICE), medium=draw(st.booleans()))
