"""A small result of the demo, made by hand."""

import numpy as np

from partita.demo.detector import Detection
from partita.demo.photo import DrawnPlate
from partita.demo.reader import PlateRead
from partita.demo.result import DemoResult, Trial
from partita.exactness.compare import Difference
from partita.execution import DeviceUse, LinkUse, Report
from partita.plan import Identity, Plan, Shard, Stage
from partita.regions import Region

CORNERS = ((20.0, 20.0), (60.0, 22.0), (60.0, 36.0), (20.0, 34.0))


def make_plan() -> Plan:
    """Return two stages: one by unequal rows on three devices, one of them idle, and a tail."""
    shards = tuple(
        Shard(
            device,
            {
                "tall": Region(((0, 1), (0, 4), (4 * a, 4 * b), (0, 8))),
                "flat": Region(((0, 1), (0, 4), (a, b), (0, 2))),
            },
        )
        for device, a, b in (("box", 2, 5), ("camera", 0, 2), ("idle", 5, 5))
    )
    tail = Stage("tail", ("c",), "none", (Shard("camera"),))
    stages = (Stage("body", ("a", "b"), "rows", shards), tail)
    return Plan(Identity("net", "0"), Identity("lab", "1"), stages, "hand")


def make_report(*latencies_s: float) -> Report:
    """Return a report of requests one after the other, 2000 bytes each over one link."""
    return Report(
        planner="hand",
        seed=0,
        latencies_s=latencies_s,
        makespan_s=sum(latencies_s),
        devices=(DeviceUse("camera", 0.1, 1000),),
        links=(LinkUse("camera", "box", 2000 * len(latencies_s), 0.1),),
    )


def make_result(*, read: str = "A12345", difference: float = 0.0) -> DemoResult:
    """Return a result of one plate, twice as fast divided as alone, predicted 10 % too low."""
    found = PlateRead(read, Detection((20, 20, 60, 36), 0.9, CORNERS))
    return DemoResult(
        pixels=np.full((48, 96, 3), 90, np.uint8),
        drawn=(DrawnPlate("A12345", CORNERS),),
        read=(found,),
        divided=Trial(make_plan(), make_report(0.1), make_report(0.3, 0.11, 0.1)),
        single=Trial(make_plan(), make_report(0.2), make_report(0.22)),
        differences=(Difference("loc", difference, 8.0), Difference("conf", 0.0, 1.0)),
        status="feasible",
        lower_bound_s=0.06,
        wall_s=12.0,
    )
