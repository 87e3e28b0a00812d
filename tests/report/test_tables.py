"""Tables say what the plan and the runs hold."""

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console
from tests.report.samples import DEVICES, make_bundle, make_plan, make_report

from partita.execution import LinkUse, QueueUse, StepUse
from partita.plan import Shard, Stage
from partita.regions import Region
from partita.report import Contender, compare_table, plan_table, report_tables
from partita.report import tables as t


def show(*renderables: object) -> str:
    """Return what a wide terminal shows."""
    console = Console(file=io.StringIO(), width=200)
    for renderable in renderables:
        console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_shares_of_a_row_split_add_up() -> None:
    """Each device's share is its part of the owned rows: 12, 32, 36 and 32 of 112."""
    assert t.tabulate_plan(make_plan()).rows[0][3:] == ("11 %", "29 %", "32 %", "28 %")


#: Rows of two devices, one of which has hardly any.
SIZES = (("a", 1), ("b", 999))


@pytest.mark.parametrize(
    ("axis", "shards", "merge", "expected"),
    [
        ("none", (Shard("a"),), (), "whole"),
        ("replica", (Shard("a"), Shard("b")), (), "replica"),
        ("rows", (Shard("b"),), (), None),
        ("rows", (Shard("a", {"x": Region(((0, 0),))}),), (), None),
        ("rows", tuple(Shard(d, {"x": Region(((0, n),))}) for d, n in SIZES), (), "< 1 %"),
        ("input_channels", (Shard("b"),), (Shard("a"),), "merge"),
    ],
)
def test_share_in_words(axis: str, shards: tuple, merge: tuple, expected: str | None) -> None:
    """A share without a meaningful percentage is told in words, an empty one not at all."""
    shares = t.describe_shares(Stage("s", ("l",), axis, shards, merge))  # type: ignore[arg-type]
    assert shares.get("a") == expected


def test_a_replica_says_its_share_of_requests() -> None:
    """Where the plan gives shares, each device's is a percentage."""
    stage = Stage("s", ("l",), "replica", (Shard("a"), Shard("b")), shares=(3, 1))
    assert t.describe_shares(stage) == {"a": "replica 75 %", "b": "replica 25 %"}


@pytest.mark.parametrize("parts", [(1, 1, 1), (996, 4), (101, 99), (1,) * 7, (5, 0)])
def test_shares_of_a_stage_add_up(parts: tuple[int, ...]) -> None:
    """Rounded one by one they would be 99 or 101 percent; who shares has not all."""
    shards = tuple(Shard(f"d{n}") for n in range(len(parts)))
    shares = t.describe_shares(Stage("s", ("l",), "replica", shards, shares=parts))
    found = [words.removeprefix("replica ").removesuffix(" %") for words in shares.values()]
    assert sum(1 if part == "< 1" else int(part) for part in found if part != "replica") == 100


def test_run_table_puts_measured_beside_predicted() -> None:
    """Latency rows carry both values and how far they are apart."""
    run = make_report()
    slow = make_report(noise=0.2, seed=1)
    (row, *_) = t.tabulate_run(run, slow).rows
    assert row[0] == "latency, mean"
    assert row[3] == f"{100 * (slow.mean_s / run.mean_s - 1):+.1f} %"


def test_absent_run_leaves_no_empty_columns() -> None:
    """With a prediction alone no table has a column for the measurement."""
    run = make_report()
    for table in (
        t.tabulate_run(run, None),
        t.tabulate_devices(run, None),
        t.tabulate_links(run, None),
    ):
        assert "measured" not in table.columns
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_queues_show_shares_of_lanes_where_something_waited() -> None:
    """What found its lane idle every time has no row."""
    queues = (QueueUse("a", "send:b", (6, 3, 1)), QueueUse("b", "compute", (10, 0, 0)))
    table = t.tabulate_queues(None, replace(make_report(), queues=queues))
    assert table.rows == (("a send → b", "0: 60%, 1: 30%, 2–3: 10%"),)


def test_steps_show_medians_side_by_side_and_the_slow_ones() -> None:
    """Where only one run is there its columns are left."""
    runs = [
        replace(make_report(), steps=(StepUse("a", 1, "s0 rows 1/2", 9, p50, 2 * p50, 3 * p50),))
        for p50 in (0.1, 0.11)
    ]
    assert t.tabulate_steps(*runs).rows == (
        ("a", "s0 rows 1/2", "100 ms", "110 ms", "+10.0 %", "220 ms", "330 ms"),
    )
    assert t.tabulate_steps(runs[0], None).columns == ("device", "step", "predicted")


def test_comparison_is_sorted_by_latency() -> None:
    """The fastest planner comes first, one without a plan last."""
    names = [row[0] for row in t.tabulate_comparison(make_bundle().comparison).rows]
    assert names == ["best", "proportional_rows", "cut", "single", "exhaustive"]


def test_terminal_tables_take_names_literally() -> None:
    """Console markup and control characters in names are shown, not obeyed."""
    plan = make_plan()
    odd = Stage("[red]x[/red]\x1b[31m", ("l",), "none", (Shard("[bold]dev"),))
    text = show(plan_table(type(plan)(plan.model, plan.cluster, (odd,), "p")))
    assert "[red]x[/red]" in text
    assert "[bold]dev" in text
    assert "\x1b" not in text


def test_terminal_tables_hold_every_row() -> None:
    """Plan, run and comparison tables show each stage, device, link and planner."""
    bundle = make_bundle()
    text = show(
        plan_table(bundle.plan),
        *report_tables(bundle.predicted, bundle.measured),
        compare_table(bundle.comparison),
    )
    words = ("features", "nano-2", "camera → nano-1", "latency, p99", "proportional_rows")
    assert [word for word in words if word not in text] == []


def test_a_device_has_one_column_however_often_it_is_listed() -> None:
    """Runs list their devices each; the plan's table has each once."""
    columns = t.tabulate_plan(make_plan(), [*DEVICES, *DEVICES]).columns
    assert columns == ("stage", "layers", "axis", *DEVICES)


def test_many_devices_share_a_column() -> None:
    """A column each would leave no room for any: one cell names the devices of each share."""
    names = [f"d{number}" for number in range(10)]
    rows = [(0, 4), *((4 + number, 5 + number) for number in range(8)), (12, 12)]
    shards = tuple(
        Shard(name, {"x": Region((span,))}) for name, span in zip(names, rows, strict=True)
    )
    plan = replace(make_plan(), stages=(Stage("s", ("l",), "rows", shards),))
    table = t.tabulate_plan(plan, names[::-1])
    assert table.columns == ("stage", "layers", "axis", "devices")
    assert table.rows[0][3] == "8 %: d8, d7, d6, d5, d4, d3, d2, d1; 33 %: d0"
    assert "33 %: d0" in show(plan_table(plan))


def test_of_very_many_links_those_with_most_bytes_are_listed() -> None:
    """The heading says how many there are."""
    uses = tuple(LinkUse(f"s{number:03}", "t", number, 0.0) for number in range(100))
    table = t.tabulate_links(replace(make_report(), links=uses), None)
    assert table.title == "Links, 40 of 100: most bytes"
    assert [row[0] for row in table.rows] == [f"s{number:03} → t" for number in range(60, 100)]


def test_what_decides_is_said() -> None:
    """The largest part by name, and how computing, transfers and waiting share the latency."""
    report = make_report()
    words = t.describe_path(report)
    assert words.startswith("camera computing takes ")
    shares = [int(share) for share in re.findall(r"(\d+)%", words)]
    assert len(shares) == 4
    assert 98 <= sum(shares[1:]) <= 102
    rows = t.tabulate_path(report, report).rows
    assert rows[0][0] == "camera computing"
    assert rows[0][1] == rows[0][3]
    assert t.describe_path(replace(report, spans=())) == ""


def test_the_leaders_way_may_decide() -> None:
    """Where inputs come from afar, no device's computing does."""
    report = make_report()
    far = replace(report, latencies_s=tuple(9 * taken_s for taken_s in report.latencies_s))
    assert t.describe_path(far).startswith("leader ↔ camera transfers takes ")
    assert t.tabulate_path(report, far).rows[0][0] == "leader ↔ camera transfers"


def test_what_nobody_measured_is_not_compared() -> None:
    """A send to a real network only fills a buffer: bytes are known, busy seconds are not."""
    report = make_report()
    unknown = replace(report, links=tuple(replace(use, busy_s=None) for use in report.links))
    table = t.tabulate_links(report, unknown)
    assert table.columns == ("link", "bytes, predicted", "measured", "busy, predicted")


def test_a_comparison_under_load_says_so() -> None:
    """A latency of requests that wait, a rate that fills and drains, and the one that lasts."""
    alone = Contender("best", 0.1, images_per_second=10.0)
    loaded = Contender("best", 0.1, images_per_second=10.0, requests=48, sustained_per_second=11.0)
    assert t.tabulate_comparison([alone]).columns == ("planner", "status", "predicted", "images/s")
    assert t.tabulate_comparison([loaded]).columns == (
        *("planner", "status", "predicted under load"),
        *("images/s of 48 requests", "images/s in the long run"),
    )
