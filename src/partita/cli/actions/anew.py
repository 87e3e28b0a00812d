"""What plans anew when links or devices change, or are lost."""

from __future__ import annotations

from partita.adapting.finder import Find, make_finder
from partita.cli.accuracy import ask_accuracy
from partita.cli.flags import AccuracyFlags, AdaptFlags
from partita.cost import CostModel
from partita.plan import Plan
from partita.planners import get_planner
from partita.planners.options import options_of


def make_search(plan: Plan, flags: AdaptFlags, cost: CostModel) -> Find:
    """What plans anew, as the flags say.

    Bits are chosen anew, too, by a planner that does so, where the plan names its samples.

    Raises:
        InputError: The samples, or the user's function that judged the plan, are not there.
    """
    asked, planner = plan.options, flags.planner
    if asked is None or not asked.samples or not get_planner(planner).quantises:
        return make_finder(plan, planner, flags.search_s)
    wanted = AccuracyFlags(asked.samples, judge=asked.judge or None, measure=asked.measure or None)
    base = cost.graph.base or cost.graph
    options = ask_accuracy(options_of(plan), base, cost.cluster, wanted).options
    return make_finder(
        plan,
        planner,
        flags.search_s,
        quantisation=options.quantisation,
        judge=options.judge,
    )
