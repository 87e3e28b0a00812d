"""One object that knows what everything costs."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from partita.cluster import OWN_ARRAY, THIS_MACHINE, UNMEASURED, Cluster, Device, find_entry
from partita.compile import FragmentWork, Layout, build_layout, planned_graph, work_builder
from partita.cost.amount import Amounts
from partita.cost.device import DeviceCost, DeviceFacts, runs_of, unpriced_device
from partita.cost.estimators import UNLEARNED, Sources, check_estimator, make_estimator
from partita.cost.memory import MemoryUse, device_memory, work_memory
from partita.cost.profiled_layers import fit_layers, lacks_integers
from partita.cost.rounding import find_rounding
from partita.errors import ClusterError, PlanError
from partita.execution.durations import Durations
from partita.graph import Graph
from partita.plan import Plan
from partita.profile import Profile, load_profile
from partita.profile.borders import find_blocked
from partita.program import (
    Compute,
    DeviceProgram,
    Load,
    Program,
    Receive,
    Send,
    request_share,
    type_bytes,
)
from partita.regions import Region, coded_bytes

#: Stands for every device without a profile of its own.
ANY_DEVICE = "*"
#: Whose power counts for devices of no known kind.
_USUAL_KIND = "laptop"


@dataclass(frozen=True)
class CostOptions:
    """What no profile holds.

    Attributes:
        precision: Number format that devices known from the catalogue compute in, where they can;
            None for the model's own.
        admit_s: The leader's own work per request.
        receive_s: Handling one message on the receiving device, beyond decoding.
        send_s: Handling one message on the sending device, beyond encoding.
        compute_s: Starting and ending one run of a fragment, beyond what its profile says.
    """

    precision: str | None = None
    admit_s: float = 0.0
    receive_s: float = 0.0
    send_s: float = 0.0
    compute_s: float = 0.0


class CostModel:
    """Time, memory and energy of layers, works, transfers and layouts.

    A device is priced by its own profile as measured, that of ``profiles`` before the cluster
    file's, else by this machine's times its slow-down, else by the catalogue.

    Args:
        estimator: How profiles are read; see ``partita.cost.ESTIMATORS``. Devices without a profile
            are always priced by ``roofline``, systolic arrays by ``systolic``.
        profiles: One profile: of this machine, which emulates all devices. A mapping: by device
            name; ``*`` stands for devices that neither it nor the cluster file names, the kind
            ``this-machine`` for those among them that are of it.

    Attributes:
        on_floats: Devices whose integer kernels are priced as those of floats, since their profiles
            know no others.

    Raises:
        ClusterError: A device has neither profile nor kind, a profile is of another model, or the
            estimator is unknown.
    """

    def __init__(
        self,
        graph: Graph,
        cluster: Cluster,
        *,
        estimator: str = "table",
        profiles: Profile | Mapping[str, Profile] | None = None,
        options: CostOptions | None = None,
    ) -> None:
        self.graph, self.cluster, self.estimator = graph, cluster, estimator
        check_estimator(estimator)
        if not isinstance(profiles, Profile | Mapping | None):
            raise ClusterError(
                f"Profiles are of type {type(profiles).__name__}: allowed is one profile of this"
                " machine, or a mapping of profiles by device."
            )
        self.options = options or CostOptions()
        self.amounts = Amounts(graph)
        self.profiles = profiles
        self.on_floats: list[str] = []
        if (entry := cluster.strangers) is not None and entry.device.kind != UNMEASURED:
            self.price_device(entry.device)  # what is wrong with it is said now
        self.devices = {device.name: self.price_device(device) for device in cluster.devices}
        self.links = cluster.link_map

    def of(self, graph: Graph) -> CostModel:
        """The same of another graph of the model, a quantised one; devices are as slow as here."""
        other = copy.copy(self)
        other.graph, other.amounts, other.on_floats = graph, Amounts(graph), []
        slow = {name: cost.facts.slow_down for name, cost in self.devices.items()}
        other.devices = {
            d.name: other.price_device(d).slowed(slow[d.name]) for d in self.cluster.devices
        }
        return other

    def on(self, cluster: Cluster) -> CostModel:
        """The same where the same devices have other memory, and links other rates."""
        other = copy.copy(self)
        other.cluster, other.links = cluster, cluster.link_map
        return other

    def of_plan(self, plan: Plan) -> CostModel:
        """The same of the graph that a plan speaks of, whatever its bits."""
        planned = planned_graph(self.graph, plan)
        return self if planned is self.graph else self.of(planned)

    def price_device(self, device: Device) -> DeviceCost:
        """What one of the cluster's devices costs; errors as in the constructor."""
        profile, slow_down = self.find_profile(device)
        is_own = device.kind in (THIS_MACHINE, UNMEASURED, OWN_ARRAY)
        entry = None if is_own else find_entry(device.kind)
        array = device.array or (entry.array if entry else None)
        name = "roofline" if array is None else "systolic"
        if profile is not None:
            name = self.estimator
            self._check_model(device, profile)
            if lacks_integers(profile, self.graph):
                self.on_floats.append(device.name)
            profile = fit_layers(profile, self.amounts)
        elif entry is None and array is None:
            raise unpriced_device(device)
        own = self.graph.number_type
        precision = self.options.precision or own
        byte_share = type_bytes(precision) / type_bytes(own)
        layers = self.amounts.layers
        sources = Sources(device.name, layers, profile, entry, precision, byte_share, array)
        learned = None if name in UNLEARNED else profile
        return DeviceCost(
            DeviceFacts(
                device=device,
                estimator=make_estimator(name, sources),
                runs=runs_of(learned, entry, array),
                wires=profile.wires if profile is not None else {},
                blocked=find_blocked(self.graph, learned),
                rounding=find_rounding(self.graph, learned),
                slow_down=slow_down,
                watts_busy=(entry or find_entry(_USUAL_KIND)).watts_busy,
                precision=own,
                step_s=self.options.compute_s,
            ),
            self.amounts,
        )

    def find_profile(self, device: Device) -> tuple[Profile | None, float]:
        """The profile that holds for a device, and what its times are multiplied by."""
        is_other = device.kind == UNMEASURED  # what this machine takes says nothing of it
        if isinstance(self.profiles, Profile) and not is_other:
            return self.profiles, device.slow_down
        given = self.profiles if isinstance(self.profiles, Mapping) else {}
        if device.name in given:
            return given[device.name], 1.0
        if device.profile is not None:
            return load_profile(device.profile), 1.0
        here = None if is_other else given.get(ANY_DEVICE)
        if device.kind == THIS_MACHINE:
            here = given.get(THIS_MACHINE, here)
        return (here, device.slow_down) if here is not None else (None, 1.0)

    @property
    def reference_s(self) -> float:
        """The pace of this machine when it was profiled; 0 where its profile is not in use."""
        here = self.profiles
        if not isinstance(here, Profile):
            given = here or {}
            here = given.get(ANY_DEVICE, given.get(THIS_MACHINE))
        return 0.0 if here is None else here.reference_s

    def _check_model(self, device: Device, profile: Profile) -> None:
        own = self.graph.base or self.graph
        # Of the quantised graph itself one may be measured, too, as on integer kernels.
        if profile.model_hash not in (own.hash, self.graph.hash):
            raise ClusterError(
                f"Profile of device {device.name!r} is of model {profile.model!r}"
                f" ({profile.model_hash[:12]}), not of {own.name!r}"
                f" ({own.hash[:12]}). Measure it with 'partita profile'.",
                subject=device.name,
            )

    def layer_s(self, device: str, layer: str, boxes: Mapping[str, Region]) -> float:
        """The seconds of one layer among others, for boxes of its outputs.

        Args:
            boxes: Output tensors and boxes; the layer's first output counts, else any.
        """
        first = self.graph.layer(layer).outputs[0]
        box = boxes.get(first) or next(iter(boxes.values()))
        return self.devices[device].layer_s(layer, box)

    def work_s(self, device: str, work: FragmentWork) -> float:
        """The seconds of one run of ``work`` on ``device``."""
        return self.devices[device].work_s(work)

    def forget(self) -> None:
        """Forget works and their seconds, which fill the memory in long searches, and in many."""
        work_builder(self.graph).forget()
        for device in self.devices.values():
            device.forget()

    def transfer_s(self, source: str, target: str, size_bytes: float) -> float:
        """The seconds of one message on a free link.

        Zero on one device, infinite where there is no link. Bandwidth is that of time 0 where it
        varies.
        """
        if source == target:
            return 0.0
        link = self.cluster.link(source, target)
        if link is None:
            return float("inf")
        return link.message_s(size_bytes)

    def layout(self, plan: Plan) -> Layout:
        """The plan's layout on this model's graph and cluster.

        Raises:
            PlanError: The plan has other bits than the graph; see :func:`build_layout`, too.
        """
        if planned_graph(self.graph, plan) is not self.graph:
            raise PlanError(
                f"Plan quantises model '{self.graph.name}' in another way than the graph that is"
                " priced: make costs of planned_graph(graph, plan).",
                subject="bits",
            )
        return build_layout(self.graph, plan, self.cluster)

    def price(self, layout: Layout) -> Durations:
        """How long each step of the layout takes."""
        compute: dict[int, float] = {}
        receive: dict[int, float] = {}
        encode: dict[int, float] = {}
        load: dict[int, float] = {}
        program = layout.program
        for part in program.devices:
            cost = self.devices[part.device]
            compute |= self._compute_s(layout, part)
            for step in part.steps:
                if isinstance(step, Receive):
                    receive[step.id] = self._decode_s(cost, program, step)
                elif isinstance(step, Send):
                    encode[step.id] = self._encode_s(cost, program, step)
                elif isinstance(step, Load):
                    info = program.fragments[step.fragment]
                    load[step.id] = cost.load_s(info.weight_bytes, info.stored_bytes)
        return Durations(
            compute_s=compute,
            receive_s=receive,
            encode_s=encode,
            load_s=load,
            admit_s=self.options.admit_s,
            links=self.links,
        )

    def _compute_s(self, layout: Layout, part: DeviceProgram) -> dict[int, float]:
        """The seconds of each compute step of a device, what it brings in from its swap included.

        A run brings in the bytes of its fragment that have no place in memory: of all that does
        not fit, the fragment's share of the weights that the device holds.
        """
        cost = self.devices[part.device]
        works = {
            step.id: layout.works[step.fragment] for step in part.steps if isinstance(step, Compute)
        }
        seconds = {step: cost.work_s(work) for step, work in works.items()}
        if cost.facts.device.swap_bytes_per_s is not None:
            use = device_memory(self.graph, layout, part)
            over_s = self.swap_s(part.device, use)
            for step, work in works.items() if over_s else ():
                share = work.weight_bytes / use.weights if use.weights else 1 / len(works)
                seconds[step] += over_s * share
        return seconds

    def swap_s(self, device: str, use: MemoryUse) -> float:
        """The seconds that a device takes per request to bring in what does not fit its memory.

        Zero where it does not swap.
        """
        facts = self.devices[device].facts.device
        over_bytes = use.total - facts.memory_bytes
        rate = facts.swap_bytes_per_s
        return 0.0 if rate is None or over_bytes <= 0 else over_bytes / rate

    def _decode_s(self, cost: DeviceCost, program: Program, step: Receive) -> float:
        stream = program.streams[step.stream]
        size = coded_bytes(stream.box.size, stream.dtype, stream.wire)
        return self.decode_s(cost.facts.device.name, stream.wire, size)

    def _encode_s(self, cost: DeviceCost, program: Program, step: Send) -> float:
        stream = program.streams[step.stream]
        size = coded_bytes(stream.box.size, stream.dtype, stream.wire)
        return self.encode_s(cost.facts.device.name, stream.wire, size)

    @property
    def admit_s(self) -> float:
        """The leader's own seconds per request."""
        return self.options.admit_s

    def encode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """The seconds of sending a piece beyond the link's, by its :func:`coded_bytes`."""
        return self.devices[device].encode_s(wire, size_bytes) + self.options.send_s

    def decode_s(self, device: str, wire: str, size_bytes: int) -> float:
        """The seconds of receiving a piece beyond the link's, by its :func:`coded_bytes`."""
        return self.devices[device].decode_s(wire, size_bytes) + self.options.receive_s

    def watts_busy(self, device: str) -> float:
        """A device's power while it computes; estimated where its kind is unknown."""
        return self.devices[device].facts.watts_busy

    def work_memory(self, work: FragmentWork) -> MemoryUse:
        """The memory of one fragment alone on a device, for one request."""
        return work_memory(self.graph, work)

    def memory(self, layout: Layout) -> dict[str, MemoryUse]:
        """The memory that the layout takes, per device it uses."""
        return {
            part.device: device_memory(self.graph, layout, part) for part in layout.program.devices
        }

    def busy_s(self, layout: Layout) -> dict[str, float]:
        """The seconds that each device computes per request.

        Of a replicated stage each device counts its share of the requests.
        """
        busy: dict[str, float] = {}
        for part in layout.program.devices:
            seconds = self._compute_s(layout, part)
            busy[part.device] = sum(
                seconds[step.id] * request_share(layout.program, step.when)
                for step in part.steps
                if isinstance(step, Compute)
            )
        return busy

    def bottleneck_s(self, layout: Layout) -> float:
        """The largest busy time per request over devices, links, shared mediums and ports.

        Its inverse bounds the outputs per second.
        """
        return max(self.lanes_s(layout).values(), default=0.0)

    def lanes_s(self, layout: Layout) -> dict[str, float]:
        """The seconds per request for which each device computes, and each way carries.

        Devices have their names, links and ports ``a -> b``, ``a out`` and ``b in``.
        """
        program = layout.program
        busy: defaultdict[str, float] = defaultdict(float, self.busy_s(layout))
        for part in program.devices:
            cost = self.devices[part.device]
            for step in part.steps:
                if isinstance(step, Send):
                    stream = program.streams[step.stream]
                    link = self.links[stream.source, stream.target]
                    wire_s = link.occupied_s(stream.wire_bytes)
                    share = request_share(program, step.when)
                    lane_s = wire_s + self._encode_s(cost, program, step)
                    busy[f"{stream.source} -> {stream.target}"] += lane_s * share
                    if link.medium is not None:
                        busy[f"medium {link.medium}"] += wire_s * share
                    for port in link.ports:
                        busy[port.name] += stream.wire_bytes / port.bytes_per_s * share
        return dict(busy)

    def energy_joules(self, layout: Layout) -> float:
        """The energy of one request: each device's power when busy times its busy time.

        Devices of no known kind count as the catalogue's laptop: an estimate.
        """
        return sum(
            seconds * self.devices[name].facts.watts_busy
            for name, seconds in self.busy_s(layout).items()
        )
