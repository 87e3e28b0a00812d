"""Running a program: the state machine, the link clock, and the report, for both worlds.

Names are loaded when they are used: what answers first needs the machine alone.
"""

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.execution.adapt import AdaptOptions, Change, Conditions
    from partita.execution.admission import Admission
    from partita.execution.clock import LinkClock, SharedMedium, TransferTimes
    from partita.execution.durations import Durations, Link, LinkClocks, Port
    from partita.execution.events import (
        Action,
        Arrived,
        Credited,
        Delivered,
        Event,
        Fed,
        Finished,
        Free,
        GiveCredit,
        Loaded,
        Route,
        Start,
        StartLoad,
    )
    from partita.execution.histograms import TimeHistogram
    from partita.execution.machine import Machine
    from partita.execution.memory import weight_bytes
    from partita.execution.policy import Policy
    from partita.execution.report import (
        QUANTILES,
        DeviceUse,
        LinkUse,
        QueueUse,
        Report,
        ReportBuilder,
        Span,
        StepUse,
    )

_MODULES = {
    "adapt": "AdaptOptions Change Conditions",
    "admission": "Admission",
    "clock": "LinkClock SharedMedium TransferTimes",
    "durations": "Durations Link LinkClocks Port",
    "events": (
        "Action Arrived Credited Delivered Event Fed Finished Free GiveCredit Loaded Route "
        "Start StartLoad"
    ),
    "machine": "Machine",
    "memory": "weight_bytes",
    "policy": "Policy",
    "histograms": "TimeHistogram",
    "report": "QUANTILES DeviceUse LinkUse QueueUse Report ReportBuilder Span StepUse",
}

__all__ = [
    "QUANTILES",
    "Action",
    "AdaptOptions",
    "Admission",
    "Arrived",
    "Change",
    "Conditions",
    "Credited",
    "Delivered",
    "DeviceUse",
    "Durations",
    "Event",
    "Fed",
    "Finished",
    "Free",
    "GiveCredit",
    "Link",
    "LinkClock",
    "LinkClocks",
    "LinkUse",
    "Loaded",
    "Machine",
    "Policy",
    "Port",
    "QueueUse",
    "Report",
    "ReportBuilder",
    "Route",
    "SharedMedium",
    "Span",
    "Start",
    "StartLoad",
    "StepUse",
    "TimeHistogram",
    "TransferTimes",
    "weight_bytes",
]

__getattr__ = on_first_use(__name__, _MODULES)
