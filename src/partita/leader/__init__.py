"""Deploys a plan on workers, feeds inputs, collects outputs, and looks after the workers."""

from partita.leader.calls import SAMPLE, LeaderCalls, ask_leaders, find_leaders, put_off
from partita.leader.clocks import estimate_offset
from partita.leader.deployment import DeployOptions
from partita.leader.fixed_costs import refine_cost
from partita.leader.history import History
from partita.leader.links import LinkSample, measure_link
from partita.leader.losses import Lost
from partita.leader.planning import Planning
from partita.leader.rate_monitor import Expected
from partita.leader.replan_controller import ReplanController
from partita.leader.sample import Sample, SampleSince
from partita.leader.session import Session
from partita.leader.start import deploy

__all__ = [
    "SAMPLE",
    "DeployOptions",
    "Expected",
    "History",
    "LeaderCalls",
    "LinkSample",
    "Lost",
    "Planning",
    "ReplanController",
    "Sample",
    "SampleSince",
    "Session",
    "ask_leaders",
    "deploy",
    "estimate_offset",
    "find_leaders",
    "measure_link",
    "put_off",
    "refine_cost",
]
