"""Whether what is lost of a network's accuracy is little enough."""

from __future__ import annotations

import gc
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partita.errors import InfeasibleError, PlanError
from partita.exactness.accuracy import Accuracy, ask_judge, compare_scores, take_as_it_is
from partita.plan import Plan
from partita.planners.options import PlanOptions

#: What is said of a search that came to no widths.
NONE_TRIED = "no widths were tried, as the time was over"
#: What rounding may add to a drop at its limit.
_ROUNDING = 1e-9


class Acceptance:
    """Judges plans beside the network as it is; without a judge all are accurate enough.

    Args:
        reference: A plan of the network as it is.
        is_bounded: Whether something else bounds what may be lost.

    Raises:
        PlanError: Nothing says what accuracy is enough.
    """

    def __init__(self, options: PlanOptions, reference: Plan, *, is_bounded: bool) -> None:
        self._judge, self._most = options.judge, options.accuracy_drop
        self._reference = reference
        self.least_drop: float | None = None
        if self._judge is None and not is_bounded:
            raise PlanError(
                "Planner 'autosplit' was given samples, but nothing says what accuracy is enough:"
                " give a judge, or a bound by --set autosplit.most_error=NUMBER."
            )

    @cached_property
    def _whole(self) -> npt.NDArray[np.float64]:
        assert self._judge is not None
        return ask_judge(self._judge, self._reference)

    @property
    def whole(self) -> Accuracy | None:
        """The accuracy of the network as it is; None without a judge."""
        return None if self._judge is None else take_as_it_is(self._whole)

    def measure(self, plan: Plan) -> Accuracy | None:
        """The accuracy of a plan; None without a judge.

        Raises:
            PlanError: The judge fails, or its answer cannot be used.
        """
        if self._judge is None:
            return None
        whole = self._whole
        accuracy = compare_scores(ask_judge(self._judge, plan), whole)
        # The quantised networks, hundreds of megabytes in few objects that know each other, lie
        # there until the collector is called: it counts objects.
        gc.collect()
        drops = (accuracy.drop, self.least_drop)
        self.least_drop = min(drop for drop in drops if drop is not None)
        return accuracy

    def is_enough(self, accuracy: Accuracy | None) -> bool:
        """Whether a plan of this accuracy may be taken."""
        return accuracy is None or accuracy.drop <= self._most + _ROUNDING

    @property
    def complaint(self) -> str:
        """What to say where none of the plans judged is accurate enough; empty if none was."""
        if self.least_drop is None:
            return ""
        return (
            f"no widths keep accuracy to within {100 * self._most:.3g} % of the network's:"
            f" {100 * self.least_drop:.3g} % is the least lost"
        )

    def refuse(self) -> InfeasibleError:
        """The error where nothing else can be planned."""
        return InfeasibleError(
            f"No plan is accurate enough: {self.complaint}, and as it is the network has no plan."
            " Allow a larger drop of accuracy, or give the edge more memory."
        )
