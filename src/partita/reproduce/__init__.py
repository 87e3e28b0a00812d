"""The figures of papers, made again by simulation or measurement, their claims beside ours.

Names are loaded when they are used: a trial's process imports what it tries alone.
"""

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.reproduce.bench import Bench
    from partita.reproduce.cache import ResultCache
    from partita.reproduce.figure import Chart, Claim, Drawn, Figure, Paper, Table
    from partita.reproduce.papers import find_figures, find_paper, paper_names
    from partita.reproduce.study import Case, Outcome, Series, Study

_HOMES = {
    "Bench": "bench",
    "Case": "study",
    "Chart": "figure",
    "Claim": "figure",
    "Drawn": "figure",
    "Figure": "figure",
    "Outcome": "study",
    "Paper": "figure",
    "ResultCache": "cache",
    "Series": "study",
    "Study": "study",
    "Table": "figure",
    "find_figures": "papers",
    "find_paper": "papers",
    "paper_names": "papers",
}

__all__ = [
    "Bench",
    "Case",
    "Chart",
    "Claim",
    "Drawn",
    "Figure",
    "Outcome",
    "Paper",
    "ResultCache",
    "Series",
    "Study",
    "Table",
    "find_figures",
    "find_paper",
    "paper_names",
]

__getattr__ = on_first_use(__name__, _HOMES)
