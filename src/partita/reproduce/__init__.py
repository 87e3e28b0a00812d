"""The figures of papers, made again by simulation or measurement, their claims beside ours."""

from partita.reproduce import distredge, loading
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.figure import (
    Chart,
    Claim,
    Drawn,
    Figure,
    Paper,
    Table,
    find_figures,
    find_paper,
    paper_names,
)
from partita.reproduce.study import Case, Outcome, Series, Study

#: Importing a paper's package registers its figures.
_PAPERS = (distredge, loading)

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
