"""What is wanted of a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

import msgspec

from partita.errors import InfeasibleError
from partita.exactness.accuracy import Judge
from partita.graph import Graph
from partita.plan import Asked, Plan
from partita.quantisation import QuantisationData
from partita.regions import COMPRESSED, read_format

Objective = Literal["latency", "throughput", "memory", "energy"]

OBJECTIVES: tuple[Objective, ...] = ("latency", "throughput", "memory", "energy")


@dataclass(frozen=True)
class PlanOptions:
    """What is wanted of a plan.

    Attributes:
        objective: What is made small: the latency of one request, the time per request under load,
            the largest part of any device's memory, or the energy of one request.
        budget_s: Seconds by the clock on the wall that a search takes: ``best`` goes on until they
            are over, or its plan is near the bound. None for the usual search, which ends by the
            number of plans priced.
        most_s: Seconds after which the usual search is cut short; a budget takes its place.
        seed: Of random moves. Equal seeds give equal plans unless time ends the search.
        in_flight: Most requests under way at the same time; a plan has fewer where memory has no
            room for so many.
        keep_on: Tensors that must not leave a device: tensor name to device name.
        wires: Wire format per tensor, where it is not to travel raw.
        devices: Names of the devices that may compute; the cluster's providers when None.
        max_evaluations: Most plans a search may price; None for as many as its rounds take.
        axes: Along which ``best`` may divide stages: some of ``rows``, ``tiles``,
            ``output_channels`` and ``input_channels``; all when None.
        compress: Wire format that tensors of floating point may travel in where that is faster, all
            tensors where it is exact; None keeps them raw.
        energy_limits: Most joules of one request, by device.
        method: Settings of single methods: values by ``planner.setting``, as text.
        simple: Whether of all plans within 5 % of the best one found the coarsest is wanted: the
            fewest stages, then the fewest fragments.
        swap: Whether devices with a swap rate may hold more than their memory; what does not fit
            then costs time in every run.
        fallback: Whether the requester keeps a plan of its own loaded, for when others are lost.
        measure: Runs a plan and returns its seconds per request, for methods that learn from real
            runs; the cost model's prediction when None.
        quantisation: What samples say of the network's numbers, for methods that choose widths;
            they leave all as it is when None.
        integer_kernels: Whether what such methods quantise runs on the engine's integer kernels.
        payloads: Returns for tensors of a network, and a format that compresses, what share of its
            most bytes each payload is expected to take: what samples say, as ``measure_shares``.
        judge: Returns the accuracy of a plan on data apart from the samples, above 0, for such
            methods; or a score per sample, whose mean is the accuracy.
        accuracy_drop: Most that a plan's accuracy may be below that of the network as it is, as a
            part of it, from 0 to below 1.
        judge_all: Whether also those of a method's plans are judged that come after its choice.
    """

    objective: Objective = "latency"
    budget_s: float | None = None
    most_s: float = 60.0
    seed: int = 0
    in_flight: int = 1
    keep_on: Mapping[str, str] = field(default_factory=dict)
    wires: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] | None = None
    max_evaluations: int | None = None
    axes: tuple[str, ...] | None = None
    compress: str | None = None
    energy_limits: Mapping[str, float] = field(default_factory=dict)
    method: Mapping[str, str] = field(default_factory=dict)
    simple: bool = False
    swap: bool = False
    fallback: bool = False
    measure: Callable[[Plan], float] | None = None
    quantisation: QuantisationData | None = None
    integer_kernels: bool = False
    payloads: Callable[[Graph, Collection[str], str], Mapping[str, float]] | None = None
    judge: Judge | None = None
    accuracy_drop: float = 0.05
    judge_all: bool = False

    @property
    def named_devices(self) -> tuple[str, ...]:
        """The devices that the options speak of."""
        return (*self.keep_on.values(), *(self.devices or ()), *self.energy_limits)


def asked_of(options: PlanOptions) -> Asked:
    """What a plan keeps of the options that it was made with, beside its own fields."""
    return Asked(
        wires=dict(options.wires),
        devices=options.devices,
        max_evaluations=options.max_evaluations,
        axes=options.axes,
        compress=options.compress,
        energy_limits={name: most for name, most in options.energy_limits.items() if most < inf},
        method=dict(options.method),
        simple=options.simple,
        swap=options.swap,
        integer_kernels=options.integer_kernels,
        accuracy_drop=None if options.judge is None else options.accuracy_drop,
    )


def options_of(plan: Plan, *, most_s: float = PlanOptions.most_s) -> PlanOptions:
    """The options that a plan was made with, but the time, and what measured its runs.

    Of formats that compress those stay that the plan has, with what samples said of them. There is
    no judge: whoever plans anew keeps the plan's bits, whose accuracy is known, or makes one of the
    samples that the plan names.
    """
    asked = plan.options or Asked(wires=plan.wires)
    known = {name: wire for name, wire in plan.wires.items() if read_format(wire).method}
    if asked.compress in COMPRESSED:
        asked = msgspec.structs.replace(asked, compress=None, wires={**asked.wires, **known})
    kept = {name: getattr(asked, name) for name in Asked.__struct_fields__}
    del kept["samples"], kept["judge"], kept["measure"]
    kept["integer_kernels"] |= plan.integer_kernels
    if kept["accuracy_drop"] is None:
        del kept["accuracy_drop"]
    return PlanOptions(
        objective=plan.objective,  # type: ignore[arg-type]
        most_s=most_s,
        seed=plan.seed,
        in_flight=plan.in_flight,
        keep_on=plan.keep_on,
        **kept,
    )


def succeed(plan: Plan, found: Plan) -> Plan:
    """A plan found anew in a plan's place, with what that one keeps beside its decision.

    Where files and samples are, who judged by what, and the fallback, which is loaded, stay.
    """
    asked = found.options
    if asked is not None and plan.options is not None:
        old = plan.options
        asked = msgspec.structs.replace(
            asked, samples=old.samples, judge=old.judge, measure=old.measure
        )
    return msgspec.structs.replace(
        found,
        model=msgspec.structs.replace(found.model, path=plan.model.path),
        cluster=msgspec.structs.replace(found.cluster, path=plan.cluster.path),
        fallback=plan.fallback,
        options=asked,
    )


def bound_errors(options: PlanOptions, most_error: float) -> PlanOptions:
    """The options with a bound on the sum of errors, but where one was given."""
    method = {"autosplit.most_error": repr(most_error), **options.method}
    return replace(options, method=method)


def limit_only(options: PlanOptions) -> PlanOptions:
    """The options with their budget as a limit, for who searches again and again."""
    if options.budget_s is None:
        return options
    return replace(options, budget_s=None, most_s=options.budget_s)


def restrict_devices(options: PlanOptions, present: Collection[str]) -> PlanOptions:
    """The options without what they say of devices that are not there any more.

    Raises:
        InfeasibleError: A tensor must not leave such a device, or none is left that may compute.
    """
    for tensor, device in options.keep_on.items():
        if device not in present:
            raise InfeasibleError(
                f"Tensor '{tensor}' must not leave device '{device}', which is lost: there is no"
                " plan without it.",
                subject=tensor,
            )
    devices = options.devices
    if devices is not None:
        devices = tuple(name for name in devices if name in present)
        if not devices:
            raise InfeasibleError(
                f"None of the devices that may compute is left: {', '.join(options.devices or ())}."
            )
    limits = {name: most for name, most in options.energy_limits.items() if name in present}
    return replace(options, devices=devices, energy_limits=limits)
