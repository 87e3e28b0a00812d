"""What published methods may see of a cluster: one number per device, one per link.

Seconds of computing are multiply-accumulates over the device's capability; seconds of a transfer
are bytes over the link's bandwidth. The steps of a real device's curve, what each run and layer
costs beyond its work, delays and the fixed part of each message are not in this view, and the cost
model cannot be reached from it. By hand, since that is what is compared: with the whole cost model
in reach a method would no longer be the published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from partita.errors import InfeasibleError, PlanError
from partita.planners.drafts.draft import Draft
from partita.planners.drafts.layer_order import LayerOrder
from partita.planners.drafts.row_division import PrefixDivision, divide
from partita.planners.pricing.evaluator import Evaluator
from partita.planners.registry import Chosen
from partita.planners.simple.rows import linked_devices
from partita.regions import Region

#: Parts of each layer's rows at which a profile is read for the regression: quarters, not tuned.
EXTENTS = (0.25, 0.5, 0.75, 1.0)
#: Capabilities closer than this are those of equal hardware: only rounding lies between. Not tuned.
ALIKE = 1e-6


@dataclass(frozen=True)
class Crossing:
    """What is sent when division ends at a place, in bytes.

    Attributes:
        gathered: Read by the layers after it, so that their device needs it whole.
        answered: Outputs made before it: each device sends its part to the requester.
        late: Outputs made after it.
    """

    gathered: int
    answered: int
    late: int


@dataclass(frozen=True)
class LinearView:
    """Devices and links as straight lines through the origin.

    Attributes:
        requester: Where inputs are and outputs must be.
        devices: Those that may take part, in the cluster's order; each can talk with each other
            and with the requester.
        capability: Work per second of each device, see :meth:`work`.
        bandwidth: Bytes per second, by source and target.
        sizes: Bytes on the wire of each whole tensor.
        counts_macs: Whether work is multiply-accumulates; else output elements, which is for
            networks without any multiplication.
    """

    outline: LayerOrder
    requester: str
    devices: tuple[str, ...]
    capability: Mapping[str, float]
    bandwidth: Mapping[tuple[str, str], float]
    sizes: Mapping[str, int]
    counts_macs: bool = True

    @property
    def fastest(self) -> str:
        """The device with the greatest capability, the first among equals."""
        return max(self.devices, key=lambda device: self.capability[device])

    def work(self, start: int, stop: int) -> float:
        """The multiply-accumulates of a range of layers."""
        return sum(
            layer_work(self.outline, position, macs=self.counts_macs)
            for position in range(start, stop)
        )

    def compute_s(self, device: str, work: float) -> float:
        """The seconds of so much work on a device."""
        return work / self.capability[device]

    def transfer_s(self, source: str, target: str, size_bytes: float) -> float:
        """The seconds of so many bytes; 0 on one device, infinite without a link."""
        if source == target or not size_bytes:
            return 0.0
        rate = self.bandwidth.get((source, target), 0.0)
        return size_bytes / rate if rate > 0 else float("inf")

    def crossing(self, place: int) -> Crossing:
        """What is sent when division ends before the layer at ``place``."""
        graph, live = self.outline.graph, self.outline.live(place)
        after = {
            tensor for name in self.outline.order[place:] for tensor in graph.layer(name).inputs
        }
        return Crossing(
            gathered=sum(self.sizes.get(tensor, 0) for tensor in live if tensor in after),
            answered=sum(self.sizes[tensor] for tensor in graph.outputs if tensor in live),
            late=sum(self.sizes[tensor] for tensor in graph.outputs if tensor not in live),
        )

    def averaged(self) -> LinearView:
        """The view of a method that takes all devices and all links for equal."""
        mean = sum(self.capability[device] for device in self.devices) / max(1, len(self.devices))
        rates = list(self.bandwidth.values())
        rate = sum(rates) / max(1, len(rates))
        return replace(
            self,
            capability=dict.fromkeys(self.devices, mean),
            bandwidth=dict.fromkeys(self.bandwidth, rate),
        )


def last_rows(outline: LayerOrder) -> int:
    """The place after the last layer that can be divided in rows; 0 if there is none."""
    runs = outline.row_runs()
    return runs[-1][1] if runs else 0


def divide_layers(view: LinearView, devices: Sequence[str], shares: Sequence[float]) -> Draft:
    """The draft of a method that divides layer by layer.

    Every layer with rows is a stage in the same shares. What comes after them runs on the device
    with the largest share, of equal ones the one with most capability.

    Args:
        devices: Those that take part, in the order of their rows.
        shares: Of each, in any unit.
    """
    tail_device = largest_share(view, devices, shares)
    ends = tuple(range(1, last_rows(view.outline) + 1))
    return divide(view.outline, PrefixDivision(tuple(devices), tuple(shares), ends, tail_device))


def largest_share(view: LinearView, devices: Sequence[str], shares: Sequence[float]) -> str:
    """The device with the largest share; of equal ones that with most capability."""
    ranked = zip(shares, (view.capability[device] for device in devices), strict=True)
    order = [(share, rate, -number) for number, (share, rate) in enumerate(ranked)]
    return devices[-max(order)[2]]


def layer_work(outline: LayerOrder, position: int, *, macs: bool) -> float:
    """The multiply-accumulates, or the output elements, of one layer."""
    layer = outline.graph.layer(outline.order[position])
    if macs:
        return float(layer.macs)
    regions = outline.works.regions
    return float(sum(max(0, regions.whole(tensor).size) for tensor in layer.outputs))


def fit_view(evaluator: Evaluator, devices: tuple[str, ...]) -> LinearView:
    """The linear view of some devices.

    A capability is the slope of the least squares line through the origin: work against seconds of
    all layers at several numbers of rows.

    Args:
        evaluator: Of the exact cost.
        devices: Some of its devices.
    """
    outline, cluster = evaluator.outline, evaluator.cluster
    capability = evaluator.remember(_fit_capabilities)
    ends = dict.fromkeys((*devices, evaluator.requester))
    links = ((a, b, cluster.link(a, b)) for a in ends for b in ends)
    return LinearView(
        outline,
        evaluator.requester,
        devices,
        {device: capability[device] for device in devices},
        {(a, b): link.bandwidth_at(0.0) for a, b, link in links if link is not None},
        {tensor: evaluator.problem.wire_bytes(tensor) for tensor in outline.graph.tensors
         if min(outline.graph.tensors[tensor].shape, default=0) >= 0},
        evaluator.graph.macs > 0,
    )  # fmt: skip


_Point = tuple[str, dict[str, Region], float]


def _points(outline: LayerOrder) -> Iterator[_Point]:
    """Yield layers with boxes of their first output, and the work that each box is."""
    macs = outline.graph.macs > 0
    for position, name in enumerate(outline.order):
        work = layer_work(outline, position, macs=macs)
        layer = outline.graph.layer(name)
        if not work or not layer.outputs:
            continue
        tensor = layer.outputs[0]
        whole = outline.works.regions.whole(tensor)
        axis = outline.axes.axis(tensor)
        height = 1 if axis is None else whole.shape[axis]
        for rows in sorted({max(1, round(height * extent)) for extent in EXTENTS}):
            box = whole if axis is None else whole.with_axis(axis, (0, rows))
            yield name, {tensor: box}, work * rows / height


def _fit_capabilities(evaluator: Evaluator) -> dict[str, float]:
    points = list(_points(evaluator.outline))
    return {device: _fit_capability(evaluator, device, points) for device in evaluator.devices}


def _fit_capability(evaluator: Evaluator, device: str, points: list[_Point]) -> float:
    along = across = 0.0
    for layer, boxes, work in points:
        along += work * work
        across += work * evaluator.cost.layer_s(device, layer, boxes)
    return along / across if along and across > 0 else 1.0


Choose = Callable[[LinearView], Draft]


def decide(evaluator: Evaluator, choose: Choose) -> Chosen:
    """What a method chooses when it sees the linear view alone.

    Where the method gives a device more than its memory holds, the device is left out and the
    method decides again: of the exact cost model it learns nothing but this.

    Args:
        evaluator: Of the exact cost; makes the view, and says what does not fit.

    Raises:
        InfeasibleError: No devices are left, or links are missing.
    """
    crew = linked_devices(evaluator, fit_view(evaluator, evaluator.devices).capability)
    refused: list[Draft] = []
    while crew:
        draft = choose(fit_view(evaluator, crew))
        try:
            evaluator.estimate(draft)
        except InfeasibleError as error:
            refused.append(draft)
            if error.subject not in crew:
                break
            crew = tuple(device for device in crew if device != error.subject)
        except PlanError as error:
            message = f"No plan found: {error.message}"
            raise InfeasibleError(message, subject=error.subject) from error
        else:
            return Chosen(draft)
    if refused:
        return Chosen(evaluator.best(refused))  # which says what the nearest of them lacks
    raise InfeasibleError(
        f"No device that may compute has links from and to the requester '{evaluator.requester}'."
        " Add links to the cluster file, or let other devices compute.",
        subject=evaluator.requester,
    )
