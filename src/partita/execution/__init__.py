"""Running a program: the state machine, the link clock, and the report, for both worlds."""

from partita.execution.adapt import AdaptOptions, Belief, Change
from partita.execution.admission import Admission
from partita.execution.clock import LinkClock, SharedMedium, Transfer
from partita.execution.durations import Durations, LinkClocks, LinkSpec
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
from partita.execution.machine import Machine
from partita.execution.memory import weight_bytes
from partita.execution.policy import Policy
from partita.execution.report import DeviceUse, LinkUse, Report, ReportBuilder, Span
from partita.execution.request import Wait

__all__ = [
    "Action",
    "AdaptOptions",
    "Admission",
    "Arrived",
    "Belief",
    "Change",
    "Credited",
    "Delivered",
    "DeviceUse",
    "Durations",
    "Event",
    "Fed",
    "Finished",
    "Free",
    "GiveCredit",
    "LinkClock",
    "LinkClocks",
    "LinkSpec",
    "LinkUse",
    "Loaded",
    "Machine",
    "Policy",
    "Report",
    "ReportBuilder",
    "Route",
    "SharedMedium",
    "Span",
    "Start",
    "StartLoad",
    "Transfer",
    "Wait",
    "weight_bytes",
]
