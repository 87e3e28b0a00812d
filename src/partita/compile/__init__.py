"""Compiling: a plan checked against its graph, laid out on devices, and written as fragments."""

from partita.compile.account import account_layout, loaded_works
from partita.compile.check import check_plan
from partita.compile.emit import Compiled, compile_plan, write_work
from partita.compile.layout import Layout, build_layout, work_builder
from partita.compile.planned import float_plan, planned_graph
from partita.compile.work import FragmentWork, WorkBuilder
from partita.graph.whole import WholeModel

__all__ = [
    "Compiled",
    "FragmentWork",
    "Layout",
    "WholeModel",
    "WorkBuilder",
    "account_layout",
    "build_layout",
    "check_plan",
    "compile_plan",
    "float_plan",
    "loaded_works",
    "planned_graph",
    "work_builder",
    "write_work",
]
