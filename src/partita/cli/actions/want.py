"""How many boards a wish takes, and the plan for the cheapest of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from partita.cli.actions.plan import describe_planned, describe_verdict, predict_plan
from partita.cli.costs import profile_files, read_cost
from partita.cli.flags import ModelFiles
from partita.cli.output import Reply, check_output, say, write_output
from partita.cli.sources import name_sources, parse_pairs, read_model
from partita.cluster import dump_cluster, load_cluster
from partita.errors import InfeasibleError, InputError
from partita.plan import dump_plan
from partita.planners import PlanOptions
from partita.planners.sizing import MOST_BOARDS, MOST_S, Sized, Wish, offered, size_clusters
from partita.report import plan_table, report_tables
from partita.report.tables import TableData
from partita.report.text import draw_table
from partita.units import format_seconds, parse_quantity

#: How a cluster file begins that this command may write again.
_MARK = b"# Written by 'partita plan --want'.\n"


@dataclass(frozen=True)
class WantFlags:
    """What is wanted.

    Attributes:
        text: Answers per second, or the seconds of one.
        prices: Of one board: texts ``KIND=AMOUNT``.
        in_flight: Requests under way; None for the usual number.
    """

    text: str
    prices: Sequence[str] | None
    in_flight: int | None = None


def size(
    files: ModelFiles, want: WantFlags, planner: str, options: PlanOptions, output: Path | None
) -> Reply:
    """Say how many boards of each kind fulfil a wish, and plan for the cheapest.

    Args:
        options: Their objective is not looked at.
        output: The plan file, with its cluster file beside it; None writes none.

    Raises:
        InputError: The wish or a price cannot be read, or a file cannot be used.
        InfeasibleError: No number of boards fulfils the wish.
    """
    wish = parse_wish(want.text)
    _check_names(options)
    inputs = [files.model, files.cluster, files.bits, *profile_files(files.profiles)]
    check_output(output, *inputs)
    beside = _beside(output)
    check_output(beside, *inputs)
    graph, cluster = read_model(files), load_cluster(files.cluster)
    cost = read_cost(graph, cluster, files)
    prices = parse_prices(want.prices, tuple(offered(cluster)))
    found = list(
        size_clusters(cost, wish, planner, options, in_flight=want.in_flight, progress=_tell)
    )
    cheapest = _cheapest(found, prices)
    if cheapest is None or cheapest.result is None:
        raise InfeasibleError(_shortfall(found, want.text, options))
    plan = cheapest.result.plan
    planned = predict_plan(
        cheapest.cost, cheapest.result, replace(options, in_flight=plan.in_flight)
    )
    reply = Reply(
        describe_planned(planned) | {"boards": [_describe(one, prices) for one in found]},
        [
            draw_table(_table(found, prices, wish, cheapest)),
            *_left_out(found, options),
            plan_table(plan, cheapest.cost.cluster.names),
            *report_tables(planned.predicted),
            *describe_verdict(cheapest.result),
        ],
    )
    if output is not None and beside is not None:
        write_output(beside, _MARK + dump_cluster(cheapest.cost.cluster).encode())
        write_output(output, dump_plan(name_sources(plan, files.model, beside, files.shapes)))
        reply.payload |= {"file": str(output), "cluster": str(beside)}
        reply.shown.append(f"Written to {output}, its cluster to {beside}")
    return reply


def _cheapest(found: Sequence[Sized], prices: Mapping[str, float]) -> Sized | None:
    """The boards that do and cost least, those without a price last, and of equals the fewest."""

    def cost(one: Sized) -> tuple[float, int]:
        return one.count * prices.get(one.kind, float("inf")), one.count

    return min((one for one in found if one.is_met), key=cost, default=None)


def _beside(output: Path | None) -> Path | None:
    """The plan's cluster file; refused where that is the plan, or a file that is another's."""
    if output is None:
        return None
    beside = output.with_suffix(".toml")
    if output == beside:
        raise InputError(
            f"-o {output}: the plan's cluster is written beside it with the ending .toml: give the"
            " plan another ending, such as .json.",
            subject=str(output),
        )
    if beside.is_file() and not beside.read_bytes().startswith(_MARK):
        raise InputError(
            f"File '{beside}' is there already: -o {output} with --want would write the plan's"
            " cluster to it. Give -o another name, or move that file away.",
            subject=str(beside),
        )
    return beside


def _check_names(options: PlanOptions) -> None:
    if options.keep_on or options.energy_limits:
        raise InputError(
            "--keep-on and --energy-limit name boards, and --want has yet to name them: leave them"
            " out.",
            subject="--want",
        )


def _tell(kind: str, count: int) -> None:
    say(f"{kind}: planning for {count}")


def check_alone(text: str | None, objective: str, *, real: bool, samples: bool) -> None:
    """Refuse flags that say something else beside ``--want``.

    Raises:
        InputError: Names the flag.
    """
    if text is None:
        raise InputError("--price is for --want alone: say how much is wanted.", subject="--price")
    if real:
        raise InputError(
            "--want is for boards that are not there yet: --real has none to run on.",
            subject="--real",
        )
    if samples:
        raise InputError(
            "--want leaves the network as it is: leave out --samples.", subject="--samples"
        )
    if objective != "latency":
        raise InputError(
            f"--want has its own objective: leave out --objective {objective}.", subject=objective
        )


def parse_wish(text: str) -> Wish:
    """A wish from ``5/s`` or ``200 ms``.

    Raises:
        InputError: It is neither, or not above zero.
    """
    is_rate = "/" in text
    try:
        value = parse_quantity("".join(text.split()), "frequency" if is_rate else "time")
        fault = "" if value > 0 else f"{text!r} is not above zero"
    except ValueError as error:
        value, fault = 0.0, str(error)
    if fault:
        raise InputError(
            f"--want: {fault}. Say how many answers per second, such as 5/s, or the time of one"
            " answer, such as '200 ms'.",
            subject=text,
        )
    return Wish(per_second=value) if is_rate else Wish(latency_s=value)


def parse_prices(texts: Sequence[str] | None, kinds: Sequence[str]) -> Mapping[str, float]:
    """The price of one board by kind.

    Raises:
        InputError: A kind is not on offer, or a price is no number of at least zero.
    """
    prices = {}
    for kind, text in parse_pairs("--price", texts).items():
        if kind not in kinds:
            raise InputError(
                f"--price names '{kind}', which the cluster file does not offer; allowed:"
                f" {', '.join(kinds)}.",
                subject=kind,
            )
        try:
            prices[kind] = float(text)
        except ValueError:
            prices[kind] = -1.0
        if not (isfinite(prices[kind]) and prices[kind] >= 0):
            raise InputError(
                f"--price {kind}={text}: must be a number of at least 0.", subject=kind
            )
    return prices


def _shortfall(found: Sequence[Sized], wanted: str, options: PlanOptions) -> str:
    """What came nearest, where nothing fulfils the wish; where that is proven, why nothing can."""
    reasons = "; ".join(dict.fromkeys(map(_reason, found)))
    if all(map(_is_impossible, found)):
        return f"No number of boards up to {MOST_BOARDS} reaches {wanted}: {reasons}."
    tried = " that was tried" if any(one.untried for one in found) else f" up to {MOST_BOARDS}"
    what = f"No number of boards{tried} was found to reach {wanted}: {reasons}."
    return " ".join((what, *_left_out(found, options)))


def _is_impossible(sized: Sized) -> bool:
    """Whether no number of boards can do: fewer than those that cannot have no more of anything."""
    is_proven = sized.fault is not None and sized.fault.is_proven and not sized.untried
    return bool(sized.limit) or is_proven


def _reason(sized: Sized) -> str:
    """How far boards of a kind get, or why they have no plan."""
    if sized.limit:
        return sized.limit
    boards = f"{sized.count} x '{sized.kind}'"
    if sized.result is None:
        return f"{boards}: {sized.fault.message.rstrip('.') if sized.fault else 'no plan'}"
    rate = sized.result.estimate.images_per_second
    return f"{boards} reach {rate:.3g}/s, {format_seconds(sized.result.latency_s)}"


def _left_out(found: Sequence[Sized], options: PlanOptions) -> list[str]:
    """What there was no time for, in a sentence per kind; and which searches time ended."""
    untried = [
        f"Time ended before {_numbers(one.untried)} x '{one.kind}' were tried: --budget gives more."
        for one in found
        if one.untried
    ]
    open_still = [
        f"No plan of fewer than {one.count} x '{one.kind}' was found that does, which does not rule"
        " them out."
        for one in found
        if one.is_met and not (one.is_least or one.was_cut or one.untried)
    ]
    untried += open_still
    kinds = ", ".join(f"'{one.kind}'" for one in found if one.was_cut)
    if not kinds:
        return untried
    most = format_seconds(MOST_S if options.budget_s is None else options.budget_s)
    return [
        *untried,
        f"Searches for {kinds} were cut short, as all together have {most}: with a larger --budget"
        " fewer boards, or more of them, may do.",
    ]


def _numbers(numbers: range) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _describe(sized: Sized, prices: Mapping[str, float]) -> dict[str, object]:
    price = prices.get(sized.kind)
    return {
        "kind": sized.kind,
        "count": sized.count,
        "is_met": sized.is_met,
        "is_least": sized.is_least,
        "untried": [sized.untried[0], sized.untried[-1]] if sized.untried else None,
        "images_per_second": sized.result and sized.result.estimate.images_per_second,
        "latency_s": sized.result and sized.result.latency_s,
        "price": None if price is None else sized.count * price,
    }


def _table(
    found: Sequence[Sized], prices: Mapping[str, float], wish: Wish, cheapest: Sized
) -> TableData:
    rows = []
    for sized in found:
        reached = "not possible" if _is_impossible(sized) else "no plan"
        if sized.result is not None and wish.per_second is not None:
            reached = f"{sized.result.estimate.images_per_second:.3g}/s"
        elif sized.result is not None:
            reached = format_seconds(sized.result.latency_s)
        price = prices.get(sized.kind)
        amount = "" if price is None else f"{sized.count * price:g}"
        mark = "planned below" if sized is cheapest else "" if sized.is_met else "not enough"
        rows.append((sized.kind, mark, str(sized.count), reached, amount))
    columns = ("kind", "", "boards", "predicted", "price")
    return TableData("Fewest boards of each kind", columns, tuple(rows), text_columns=2)
