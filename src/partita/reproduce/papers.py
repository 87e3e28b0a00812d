"""All papers: importing a module of figures registers them."""

from partita.reproduce import autosplit, collaborative, distredge, separable
from partita.reproduce.figure import find_figures, find_paper, paper_names
from partita.reproduce.loading import engine, parts, pytorch

_FIGURES = (autosplit, collaborative, distredge, engine, parts, pytorch, separable)

__all__ = ["find_figures", "find_paper", "paper_names"]
