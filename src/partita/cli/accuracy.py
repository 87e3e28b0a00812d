"""From flags to what accuracy is asked of a plan: samples, what they say, and who judges."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from partita.cli.flags import AccuracyFlags
from partita.cli.functions import load_function
from partita.cli.output import Reply, cache_folder, progress_bar, write_output
from partita.cluster import Cluster
from partita.compile.planned import float_plan
from partita.errors import InputError
from partita.exactness.accuracy import Accuracy, ask_judge, measure_accuracy, take_as_it_is
from partita.exactness.compare import is_lossy_plan
from partita.exactness.judges import RULES, DataJudge, Rule, choose_rule
from partita.graph import Graph
from partita.plan import Plan
from partita.planners import PlanOptions, Result, get_planner, planner_names
from partita.quantisation import divide_samples, find_data, read_data
from partita.quantisation.bits import explain_left
from partita.quantisation.data import LOSSES, Loss
from partita.quantisation.samples import Feeds, Sample
from partita.report import draw_table
from partita.report.trade_offs import (
    describe_accuracy,
    describe_trade_offs,
    say_accuracy,
    tabulate_trade_offs,
)

_BOUND = "autosplit.most_error"
#: What ``--pareto`` may end in.
_PICTURES = (".png", ".svg", ".json")


@dataclass(frozen=True)
class AskedAccuracy:
    """What accuracy is asked of a plan.

    Attributes:
        graph: Not quantised.
        options: With what samples say of the network, and a judge of plans.
        words: What is judged; empty where nothing is.
        on: On what.
        samples: Those that ranges are from.
    """

    flags: AccuracyFlags
    graph: Graph
    options: PlanOptions
    words: str = ""
    on: str = ""
    samples: Sequence[Feeds] = ()


def check_accuracy(
    flags: AccuracyFlags, planners: Sequence[str], *, has_bits: bool, compresses: bool
) -> None:
    """Refuse flags that would be ignored.

    Args:
        planners: Those that are asked.
        has_bits: Whether the model's bits are given already.
        compresses: Whether samples tell how long payloads are, whoever plans.

    Raises:
        InputError: Names the flag.
        PlanError: A planner is unknown.
    """
    given = {
        "--accuracy-drop": flags.drop,
        "--judge": flags.judge,
        "--measure": flags.measure,
        "--pareto": flags.pareto,
    }
    for name, value in given.items():
        if value is not None and not flags.samples:
            raise InputError(f"{name} needs samples: give --samples.", subject=name)
    if not flags.samples:
        return
    if flags.measure not in (None, *LOSSES):
        raise InputError(
            f"--measure is '{flags.measure}', allowed: {', '.join(LOSSES)}.", subject="--measure"
        )
    if has_bits:
        raise InputError(
            "--samples is for methods that choose bits: leave out --bits, which gives them.",
            subject="--samples",
        )
    if flags.pareto is not None:
        _check_pareto(flags.pareto, planners[0])
    if not compresses and not any(get_planner(name).quantises for name in planners):
        able = [name for name in planner_names() if get_planner(name).quantises]
        raise InputError(
            f"--samples: planner '{planners[0]}' leaves the network as it is; allowed:"
            f" {', '.join(able)}.",
            subject="--samples",
        )


def _check_pareto(pareto: Path, planner: str) -> None:
    """Refuse a file of no known kind, and a planner that has nothing to choose from."""
    if pareto.suffix not in _PICTURES:
        raise InputError(
            f"--pareto is '{pareto}', allowed: a file that ends in {', '.join(_PICTURES)}.",
            subject="--pareto",
        )
    able = [name for name in planner_names() if get_planner(name).chooses_bits({})]
    if planner not in able:
        raise InputError(
            f"--pareto: planner '{planner}' does not choose among widths; allowed:"
            f" {', '.join(able)}.",
            subject="--pareto",
        )


def ask_accuracy(
    options: PlanOptions, graph: Graph, cluster: Cluster, flags: AccuracyFlags
) -> AskedAccuracy:
    """What is asked: there is no judge without samples, or where a bound on errors stands for it.

    Raises:
        InputError: A flag, a sample or the user's function cannot be used.
    """
    asked = AskedAccuracy(flags, graph, options)
    if not flags.samples:
        return asked
    drop = options.accuracy_drop if flags.drop is None else parse_drop(flags.drop)
    own = load_rule(flags.judge) if flags.judge and ":" in flags.judge else None
    for_ranges, data = divide_samples(read_data(graph, flags.samples))
    measure = cast("Loss", flags.measure or "mse")
    with progress_bar("what bits lose") as advance:
        folder = cache_folder("tables")
        found = find_data(graph, for_ranges, folder, advance, measure=measure)
    asked = replace(
        asked,
        options=replace(options, quantisation=found),
        samples=[sample.feeds for sample in for_ranges],
    )
    if _BOUND in options.method and flags.drop is None and flags.judge is None:
        return asked
    words, rule = (flags.judge or "", own) if own else choose_rule(graph, data, flags.judge or "")
    judge = DataJudge(graph, data, rule, cluster, progress=partial(progress_bar, "accuracy"))
    options = replace(
        asked.options, judge=judge, accuracy_drop=drop, judge_all=flags.pareto is not None
    )
    on = f"on {len(data)} samples apart from {len(for_ranges)} that ranges are from"
    return replace(asked, options=options, words=words, on=on)


def measure_outputs(asked: AskedAccuracy, result: Result) -> AskedAccuracy | None:
    """The same, but to go by what outputs lose, after a search that judged and found no widths.

    Returns:
        None where the search found some or had no time, or what it goes by was named.
    """
    judged = any(one.bits and one.accuracy is not None for one in result.trade_offs)
    is_named = asked.flags.measure is not None
    if is_named or result.plan.bits or not judged or result.status == "cut short":
        return None
    flags = replace(asked.flags, measure="noise")
    samples = [Sample(feeds, Path()) for feeds in asked.samples]
    with progress_bar("what outputs lose") as advance:
        folder = cache_folder("tables")
        found = find_data(asked.graph, samples, folder, advance, measure="noise")
    return replace(asked, flags=flags, options=replace(asked.options, quantisation=found))


def parse_drop(text: str) -> float:
    """A part from ``5%`` or ``0.05``.

    Raises:
        InputError: It is neither, or not from 0 to below 1.
    """
    number, percent, rest = text.strip().partition("%")
    with contextlib.suppress(ValueError):
        drop = float(number) / (100 if percent else 1)
        if 0 <= drop < 1 and not rest:
            return drop
    raise InputError(
        f"--accuracy-drop is '{text}', allowed: 0% to below 100%, such as 5%, or 0.05.",
        subject="--accuracy-drop",
    )


def load_rule(text: str) -> Rule:
    """The user's function, of a module that Python finds from here.

    Raises:
        InputError: There is no such module or function, or it cannot be imported.
    """
    others = f", or {', '.join(RULES)}"
    return cast("Rule", load_function(text, "--judge", "judges:count_right", others))


def judge_result(result: Result, asked: AskedAccuracy) -> Accuracy | None:
    """The accuracy of a planner's answer, if a judge is there: its method's word, or judged now.

    Raises:
        PlanError: The judge fails.
    """
    judge, plan = asked.options.judge, result.plan
    if judge is None or result.accuracy is not None:
        return result.accuracy
    reference = msgspec.structs.replace(float_plan(asked.graph, plan), wires={})
    if plan.bits or is_lossy_plan(plan):
        return measure_accuracy(judge, plan, reference)
    return take_as_it_is(ask_judge(judge, reference))


def add_judged(reply: Reply, result: Result, asked: AskedAccuracy) -> None:
    """Add what a plan's bits cost, and what else there was to choose from; write that, if asked.

    Raises:
        PlanError: The judge fails.
        InputError: The file cannot be written.
    """
    accuracy, pareto = judge_result(result, asked), asked.flags.pareto
    data = asked.options.quantisation
    if result.trade_offs:
        reply.shown.append(draw_table(tabulate_trade_offs(result.trade_offs)))
    if result.trade_offs and data is not None:
        reply.shown.append(f"Errors:      {LOSSES[data.errors.measure]}")
    if left := explain_left(asked.graph):
        reply.shown.append(f"Left:        {left}")
    if accuracy is not None:
        reply.shown.append(f"Accuracy:    {say_accuracy(accuracy)}: {asked.words}, {asked.on}")
    reply.payload |= {
        "accuracy": describe_accuracy(accuracy),
        "measure": None if data is None else data.errors.measure,
        "trade_offs": describe_trade_offs(result.trade_offs),
    }
    if pareto is not None:
        write_output(pareto, _draw_choices(pareto.suffix, result, asked))
        reply.shown.append(f"Choices written to {pareto}")


def name_asked(plan: Plan, flags: AccuracyFlags) -> Plan:
    """The plan with where its samples are, and who judged."""
    if plan.options is None or not flags.samples:
        return plan
    asked = msgspec.structs.replace(
        plan.options,
        samples=tuple(flags.samples),
        judge=flags.judge or "",
        measure=flags.measure or "",
    )
    return msgspec.structs.replace(plan, options=asked)


def _draw_choices(suffix: str, result: Result, asked: AskedAccuracy) -> bytes:
    """What there was to choose from: a picture, or JSON."""
    if suffix == ".json":
        text = json.dumps({"trade_offs": describe_trade_offs(result.trade_offs)}, indent=1)
        return text.encode() + b"\n"
    from partita.report.scatter import paint_trade_offs  # Matplotlib takes longer than to plan

    return paint_trade_offs(
        result.trade_offs,
        f"{result.plan.model.name}: what fewer bits and other cuts cost and gain",
        asked.options.accuracy_drop,
        words=asked.words,
        kind=suffix.removeprefix("."),
    )
