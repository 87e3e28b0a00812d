"""From a plan to a program, without touching ONNX: boxes, buffers, streams and steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from partita.cluster import Cluster
from partita.compile.placement import REGIONS, fetch_missing, nearest_first, use_held
from partita.compile.planned import planned_graph
from partita.compile.work import FragmentWork, WorkBuilder, WorkKey
from partita.errors import PlanError
from partita.graph import Graph
from partita.graph.grids import find_grids, travel_formats
from partita.graph.pins import spread_pins
from partita.plan import Plan, Shard, Stage, hash_plan
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
from partita.regions import Region, read_format, wire_bytes

When = tuple[Choice, ...]


def work_builder(graph: Graph) -> WorkBuilder:
    """The graph's own builder of works, with what it remembers."""
    return graph.remember(WorkBuilder)


@dataclass(frozen=True)
class Layout:
    """A program whose fragments are described but not written yet.

    Attributes:
        program: Steps, streams and buffers; fragment hashes are empty.
        works: What each fragment computes, in the order of the program's table.
    """

    plan: Plan
    program: Program
    works: tuple[FragmentWork, ...]


@dataclass
class _Piece:
    """Part of a tensor in a buffer: who holds it, for which routes, made by which stage."""

    box: Region
    device: str
    buffer: int
    when: When
    stage: int


def build_layout(graph: Graph, plan: Plan, cluster: Cluster) -> Layout:
    """The plan's layout on the cluster.

    Raises:
        PlanError: A tensor is needed before a stage makes it, a needed link does not exist, or a
            tensor would leave the device it is kept on.
    """
    return _Build(work_builder(planned_graph(graph, plan)), plan, cluster).run()


class _Build:
    """One compilation: tensors on devices become numbered buffers and streams."""

    def __init__(self, builder: WorkBuilder, plan: Plan, cluster: Cluster) -> None:
        self.builder = builder
        self.graph = builder.graph
        self.plan = plan
        self.cluster = cluster
        self.requester = cluster.requester
        self.specs: dict[str, TensorSpec] = {}
        self.owned: dict[str, list[_Piece]] = defaultdict(list)
        self.local: dict[tuple[str, str], list[_Piece]] = defaultdict(list)
        self.buffers: dict[int, tuple[str, str, Region, str]] = {}
        self.readers: dict[int, int] = defaultdict(int)
        self.steps: dict[str, list[Step]] = defaultdict(list)
        self.loads: dict[str, dict[int, Load]] = defaultdict(dict)
        self.streams: list[Stream] = []
        self.works: dict[WorkKey, int] = {}
        self.work_list: list[FragmentWork] = []
        self.routes: list[int] = []
        self.shares: list[tuple[int, ...]] = []
        self.kept = spread_pins(self.graph, plan.keep_on)
        self.formats = travel_formats(self.graph, plan.wires)
        self.replicated = any(stage.axis == "replica" for stage in plan.stages)
        self.next_id = 0

    def fresh(self) -> int:
        """An unused id for a step or buffer."""
        self.next_id += 1
        return self.next_id

    def run(self) -> Layout:
        """The layout of the whole plan."""
        for tensor in self.graph.inputs:
            buffer = self.add_buffer(self.requester, tensor, self.whole(tensor))
            self.steps[self.requester].append(Feed(self.fresh(), tensor, buffer))
            self.hold(_Piece(self.whole(tensor), self.requester, buffer, (), -1), tensor)
        for index, stage in enumerate(self.plan.stages):
            self.add_stage(index, stage)
        last = len(self.plan.stages)
        reads = tuple(
            self.fetch(self.requester, (tensor, self.whole(tensor)), (), last)
            for tensor in self.graph.outputs
        )
        self.steps[self.requester].append(Deliver(self.fresh(), reads))
        self.count_readers(reads)
        return Layout(self.plan, self.finish(), tuple(self.work_list))

    def whole(self, tensor: str) -> Region:
        """The box of a whole tensor."""
        return Region.full(self.spec(tensor).shape)

    def spec(self, tensor: str) -> TensorSpec:
        """Shape and type of a tensor, partial results included."""
        spec = self.specs.get(tensor)
        return self.graph.tensors[tensor] if spec is None else spec

    def add_buffer(self, device: str, tensor: str, box: Region) -> int:
        """Add a buffer on a device and return its id."""
        if self.kept.get(tensor, device) != device:
            raise PlanError(
                f"Tensor '{tensor}' is kept on device '{self.kept[tensor]}', but the plan makes it"
                f" on '{device}'.",
                subject=tensor,
            )
        buffer = self.fresh()
        self.buffers[buffer] = (device, tensor, box, self.spec(tensor).dtype)
        return buffer

    def hold(self, piece: _Piece, tensor: str, *, owned: Region | None = None) -> None:
        """Note that a device holds a piece, and owns ``owned`` of it (all of it by default)."""
        self.local[piece.device, tensor].append(piece)
        box = piece.box if owned is None else owned
        self.owned[tensor].append(_Piece(box, piece.device, piece.buffer, piece.when, piece.stage))

    def count_readers(self, reads: tuple[Input, ...]) -> None:
        """Count one reading step for each buffer that ``reads`` names."""
        for buffer in {buffer for read in reads for buffer in read.buffers}:
            self.readers[buffer] += 1

    def add_stage(self, index: int, stage: Stage) -> None:
        """Add the steps of one stage on all of its devices."""
        if stage.merge:
            self.add_partials(index, stage)
            return
        outputs = self.builder.stage_outputs(stage.layers)
        group = len(self.routes)
        if stage.axis == "replica":
            self.routes.append(len(stage.shards))
            self.shares.append(stage.shares)
        for number, shard in enumerate(stage.shards):
            when: When = ((group, number),) if stage.axis == "replica" else ()
            boxes = self.owned_boxes(shard, outputs)
            if not all(box.is_empty for box in boxes.values()):
                work = self.builder.stage(stage.layers, boxes)
                label = f"{stage.name} {stage.axis} {number + 1}/{len(stage.shards)}"
                self.add_compute(index, shard.device, (work, label), (boxes, when))

    def owned_boxes(self, shard: Shard, outputs: tuple[str, ...]) -> dict[str, Region]:
        """What a shard owns of each output: its boxes, or everything."""
        if not shard.boxes:
            return {tensor: self.whole(tensor) for tensor in outputs}
        return {tensor: shard.boxes[tensor] for tensor in outputs if tensor in shard.boxes}

    def add_partials(self, index: int, stage: Stage) -> None:
        """Add partial results on each shard's device and the merges of them."""
        layer = self.graph.layer(stage.layers[0])
        core = self.builder.core_output(layer)
        dtype = self.builder.sum_dtype(layer)
        keeper = next((self.kept[tensor] for tensor in layer.outputs if tensor in self.kept), None)
        partials = []
        for number, shard in enumerate(stage.shards):
            part = next(iter(shard.boxes.values()))
            if part.is_empty:
                continue
            name = f"{core}#{stage.name}.{number}"
            self.specs[name] = TensorSpec(name, self.spec(core).shape, dtype)
            if keeper is not None:
                # Sums of parts tell as much as the tensor that comes of them.
                self.kept[name] = keeper
            work = self.builder.partial(layer, part, name)
            label = f"{stage.name} {stage.axis} {number + 1}/{len(stage.shards)}"
            self.add_compute(index, shard.device, (work, label), ({name: self.whole(name)}, ()))
            partials.append(name)
        outputs = self.builder.stage_outputs(stage.layers)
        for shard in stage.merge:
            boxes = self.owned_boxes(shard, outputs)
            if not all(box.is_empty for box in boxes.values()):
                work = self.builder.merge(layer, boxes, partials)
                self.add_compute(index, shard.device, (work, f"{stage.name} merge"), (boxes, ()))

    def add_compute(
        self,
        index: int,
        device: str,
        what: tuple[FragmentWork, str],
        owned: tuple[dict[str, Region], When],
    ) -> None:
        """Add one Compute with the transfers that bring its inputs."""
        work, label = what
        boxes, when = owned
        reads = tuple(self.fetch(device, piece, when, index) for piece in work.inputs)
        self.count_readers(reads)
        writes = tuple(self.add_buffer(device, tensor, box) for tensor, box in work.outputs)
        fragment = self.add_work(work)
        if fragment not in self.loads[device]:
            self.loads[device][fragment] = Load(self.fresh(), fragment)
        step = Compute(self.fresh(), label, fragment, reads, writes, when)
        self.steps[device].append(step)
        for (tensor, box), buffer in zip(work.outputs, writes, strict=True):
            piece = _Piece(box, device, buffer, when, index)
            self.hold(piece, tensor, owned=boxes.get(tensor, box))

    def add_work(self, work: FragmentWork) -> int:
        """The fragment's index in the program's table."""
        number = self.works.get(work.key)
        if number is None:
            number = self.works[work.key] = len(self.work_list)
            self.work_list.append(work)
        return number

    def fetch(self, device: str, piece: tuple[str, Region], when: When, stage: int) -> Input:
        """An input of a step on ``device``, with transfers of what is missing there."""
        tensor, box = piece
        if tensor not in self.owned:
            raise PlanError(
                f"Plan needs tensor '{tensor}' on device '{device}' before any stage makes it."
                " Order the stages so that each comes after those it reads.",
                subject=tensor,
            )
        chosen: dict[int, None] = {}
        for context in dict.fromkeys(owner.when for owner in self.owned[tensor]):
            together = tuple(dict.fromkeys((*context, *when)))
            chosen |= self.fetch_under(device, piece, (together, context), stage)
        return Input(tensor, box, tuple(chosen))

    def fetch_under(
        self, device: str, piece: tuple[str, Region], choices: tuple[When, When], stage: int
    ) -> dict[int, None]:
        """Cover ``piece`` for requests whose route holds the choices; return the buffers used."""
        tensor, box = piece
        together, context = choices
        local = [
            held
            for held in self.local[device, tensor]
            if not held.when or set(held.when) <= set(together)
        ]
        used, missing = use_held(REGIONS, box, [held.box for held in local])
        buffers = {local[number].buffer: None for number in used}
        if not missing:
            return buffers
        owners = nearest_first(
            [owner for owner in self.owned[tensor] if owner.when == context],
            lambda owner: self.bandwidth(owner.device, device),
        )
        sent, missing = fetch_missing(REGIONS, missing, [owner.box for owner in owners])
        for number, part in sent:
            use = (together, stage)
            buffers[self.transfer(device, (tensor, part), owners[number], use)] = None
        if missing:
            raise PlanError(
                f"Plan leaves {missing[0]} of tensor '{tensor}' without an owner."
                " Give every part of each stage output to one shard.",
                subject=tensor,
            )
        return buffers

    def bandwidth(self, source: str, target: str) -> float:
        """A link's bandwidth in bytes/s; 0 where there is no link."""
        link = self.cluster.link(source, target)
        return 0.0 if link is None else link.bandwidth_bytes_per_s

    def transfer(
        self, device: str, piece: tuple[str, Region], owner: _Piece, use: tuple[When, int]
    ) -> int:
        """Add a stream from an owner to ``device`` and return the buffer it fills."""
        tensor, box = piece
        when, stage = use
        self.check_transfer(tensor, owner.device, device)
        wire = self.formats.get(tensor, "raw")
        dtype = self.spec(tensor).dtype
        credit = self.plan.in_flight if self.replicated else stage - owner.stage + 1
        stream = Stream(
            id=len(self.streams),
            tensor=tensor,
            box=box,
            dtype=dtype,
            source=owner.device,
            target=device,
            wire=wire,
            wire_bytes=wire_bytes(box.shape, dtype, wire),
            credit=max(1, min(self.plan.in_flight, credit)),
            when=when,
            grid=self.graph.remember(find_grids)[tensor] if read_format(wire).has_codes else None,
        )
        self.streams.append(stream)
        self.readers[owner.buffer] += 1
        self.steps[owner.device].append(Send(self.fresh(), stream.id, owner.buffer, when))
        buffer = self.add_buffer(device, tensor, box)
        self.steps[device].append(Receive(self.fresh(), stream.id, buffer, when))
        self.local[device, tensor].append(_Piece(box, device, buffer, when, stage))
        return buffer

    def check_transfer(self, tensor: str, source: str, target: str) -> None:
        """Raise when a tensor may not leave its device, or has no link to go by."""
        if tensor in self.kept:
            raise PlanError(
                f"Tensor '{tensor}' is kept on device '{self.kept[tensor]}', but the plan"
                f" sends it from '{source}' to '{target}'.",
                subject=tensor,
            )
        if self.cluster.link(source, target) is None:
            raise PlanError(
                f"Plan sends tensor '{tensor}' from '{source}' to '{target}', but the cluster has"
                " no such link. Add it to the cluster file, or use other devices.",
                subject=tensor,
            )

    def finish(self) -> Program:
        """The program."""
        names = list(dict.fromkeys((self.requester, *self.steps)))
        by_device: dict[str, list[Buffer]] = {name: [] for name in names}
        for number, (device, tensor, box, dtype) in self.buffers.items():
            by_device[device].append(Buffer(number, tensor, box, dtype, self.readers[number]))
        return Program(
            plan_hash=hash_plan(self.plan),
            model_hash=self.graph.hash,
            requester=self.requester,
            inputs=tuple(self.spec(tensor) for tensor in self.graph.inputs),
            outputs=tuple(self.spec(tensor) for tensor in self.graph.outputs),
            streams=tuple(self.streams),
            fragments=tuple(
                FragmentInfo(
                    "", (), 0, work.weight_bytes, stored_bytes=self.builder.stored_bytes(work)
                )
                for work in self.work_list
            ),
            devices=tuple(
                DeviceProgram(
                    name,
                    (*self.loads[name].values(), *self.steps[name]),
                    tuple(by_device[name]),
                    self.cluster.device(name).port_bytes_per_s,
                )
                for name in names
            ),
            routes=tuple(self.routes),
            in_flight=self.plan.in_flight,
            shares=tuple(self.shares) if any(self.shares) else (),
        )
