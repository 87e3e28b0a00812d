"""The figures of papers, made again on simulated clusters, with the papers' claims beside them."""

from partita.reproduce import distredge
from partita.reproduce.bench import Bench
from partita.reproduce.cache import ResultCache
from partita.reproduce.figure import (
    Chart,
    Claim,
    Drawn,
    Figure,
    Table,
    find_figures,
    paper_names,
)
from partita.reproduce.study import Case, Outcome, Series, Study

#: Importing a paper's package registers its figures.
_PAPERS = (distredge,)

__all__ = [
    "Bench",
    "Case",
    "Chart",
    "Claim",
    "Drawn",
    "Figure",
    "Outcome",
    "ResultCache",
    "Series",
    "Study",
    "Table",
    "find_figures",
    "paper_names",
]
