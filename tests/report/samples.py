"""Reports to draw: four devices, one stage by rows between two whole stages."""

import random
from dataclasses import replace

from partita.execution import DeviceUse, LinkUse, Report, Span
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region
from partita.report import Checked, Contender, ReportBundle

DEVICES = ("camera", "gateway", "nano-1", "nano-2")
ROWS = ((0, 12), (12, 44), (44, 80), (80, 112))


def make_plan() -> Plan:
    """Return a plan whose middle stage is divided by rows 12 : 32 : 36 : 32."""
    shards = tuple(
        Shard(device, {"pool2": Region(((0, 1), (0, 128), rows, (0, 112)))})
        for device, rows in zip(DEVICES, ROWS, strict=True)
    )
    stages = (
        Stage("features", tuple(f"conv{i}" for i in range(1, 5)), "rows", shards),
        Stage("head", ("fc6", "fc7"), "none", (Shard("nano-2"),)),
        Stage("mean", ("gap",), "input_channels", shards[:2], merge=(Shard("gateway"),)),
    )
    return Plan(Identity("vgg-small", "m" * 64), Identity("lab", "c" * 64), stages, "best")


def make_report(*, requests: int = 1, noise: float = 0.0, seed: int = 0) -> Report:
    """Return a run: scatter, compute on every device, gather, head; ``noise`` stretches spans."""
    random.seed(seed)
    spans, latencies_s, clock = [], [], 0.0
    busy = dict.fromkeys(DEVICES, 0.0)
    for request in range(requests):
        begin, ends = clock, [clock]
        for index, device in enumerate(DEVICES):
            arrive = begin + 0.004 * index
            if index:
                step = 10 * index
                spans += [
                    Span("camera", f"send:{device}", step, "input", request, begin, arrive),
                    Span(device, "receive", step + 1, "input", request, arrive, arrive + 0.0015),
                ]
            start = arrive + 0.0015
            end = start + (0.06 - 0.004 * index) * (1 + noise * random.uniform(-1, 1))
            label = f"features rows {index}"
            spans.append(Span(device, "compute", 100 + index, label, request, start, end))
            busy[device] += end - start
            if device != "nano-2":
                spans.append(Span(device, "send:nano-2", 200, "pool2", request, end, end + 0.011))
                spans.append(
                    Span(
                        "nano-2", "receive", 201 + index, "pool2", request, end + 0.011, end + 0.013
                    )
                )
            ends.append(end + 0.013)
        clock = max(ends) + 0.02
        spans.append(Span("nano-2", "compute", 300, "head", request, max(ends), clock))
        spans.append(Span("camera", "deliver", 301, "deliver", request, clock, clock + 0.001))
        latencies_s.append(clock + 0.001 - begin)
    spans.append(Span("nano-2", "load", 1, "fragment 0", -1, -0.4, -0.1))
    devices = tuple(
        DeviceUse(name, busy[name], 10_000_000 * (i + 1)) for i, name in enumerate(DEVICES)
    )
    links = tuple(
        LinkUse("camera", name, 150_528 * requests, 0.004) for name in DEVICES[1:]
    ) + tuple(
        LinkUse(name, "nano-2", 802_816 * requests, 0.011)
        for name in DEVICES[:-1]
        if name != "camera"
    )
    return Report("best", seed, tuple(latencies_s), clock + 0.001, devices, links, tuple(spans))


def make_bundle(*, requests: int = 1) -> ReportBundle:
    """Return a bundle with every part filled."""
    return ReportBundle(
        "vgg-small on four devices",
        make_plan(),
        make_report(requests=requests),
        make_report(requests=requests, noise=0.1, seed=5),
        checked=Checked(3.1e-6, 12.5, 3, True),
        lower_bound_s=0.071,
        best_single_s=0.212,
        best_single_device="nano-2",
        worth_splitting=True,
        comparison=(
            Contender("single", 0.212, 0.215, 4.7, 150_528, 0.01, "optimal"),
            Contender("cut", 0.151, 0.149, 6.6, 702_816, 0.21, "feasible"),
            Contender("proportional_rows", 0.109, 0.111, 9.2, 2_400_000, 0.02, "feasible"),
            Contender("best", 0.098, None, 10.1, 2_100_000, 2.2, "feasible"),
            Contender("exhaustive", status="more than 10 layers"),
        ),
        facts=(("read from the picture", "A12345"),),
    )


def rename(bundle: ReportBundle, name: str) -> ReportBundle:
    """Return the bundle with a device, a step, a stage and the title named ``name``."""
    plan = bundle.plan
    stage = Stage(name, (name, name + "2"), "none", (Shard(name),))
    run = bundle.predicted
    assert run is not None
    spans = tuple(
        Span(name, f"send:{name}", s.step, name, s.request, s.start_s, s.end_s) for s in run.spans
    )
    run = Report(
        name, 0, run.latencies_s, run.makespan_s, (DeviceUse(name, 0.1, 1),),
        (LinkUse(name, name, 1, 0.1),), spans,
    )  # fmt: skip
    odd = Plan(Identity(name, "m"), Identity(name, "c"), (*plan.stages, stage), name)
    contenders = (Contender(name, status=name), *bundle.comparison)
    return replace(
        bundle, title=name, plan=odd, predicted=run, measured=run, comparison=contenders,
        best_single_device=name, facts=((name, name),),
    )  # fmt: skip
