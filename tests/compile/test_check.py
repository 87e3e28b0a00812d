"""A plan that somebody edited: every broken rule is named, in one line, with its place."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from partita.compile import build_layout, check_plan, compile_plan
from partita.errors import PlanError
from partita.plan import Plan, Shard, Stage
from partita.program.check import find_leaks
from partita.regions import Region
from tests.compile.samples import halves, make_plan, pair, rows, small_graph, whole

GRAPH, CLUSTER = small_graph(), pair()
Edit = Callable[[Plan], Plan]


def with_stage(number: int, **changes: object) -> Edit:
    """Return an edit of one stage."""

    def edit(plan: Plan) -> Plan:
        stages = list(plan.stages)
        stages[number] = msgspec.structs.replace(stages[number], **changes)
        return msgspec.structs.replace(plan, stages=tuple(stages))

    return edit


def with_plan(**changes: object) -> Edit:
    """Return an edit of the plan's own keys."""
    return lambda plan: msgspec.structs.replace(plan, **changes)


def with_order(*numbers: int) -> Edit:
    """Return an edit that takes these stages in this order."""
    return lambda plan: msgspec.structs.replace(
        plan, stages=tuple(plan.stages[number] for number in numbers)
    )


def row_shards(*spans: tuple[int, int], tensor: str = "a") -> tuple[Shard, ...]:
    """Return shards of rows on ``left``, ``right`` and so on."""
    return rows("", (), tensor, *zip(("left", "right", "left"), spans, strict=False)).shards


def part(box: tuple[tuple[int, int], ...]) -> Shard:
    """Return a shard that sums over a box of the first convolution's input."""
    return Shard("left", {"x": Region(box)})


MODEL = msgspec.structs.replace(halves(GRAPH, CLUSTER).model, hash="0" * 64)
LAB = msgspec.structs.replace(halves(GRAPH, CLUSTER).cluster, hash="0" * 64)
X = ((0, 1), (0, 2), (0, 8), (0, 4))

BOTH = (Shard("left"), Shard("right"))
EDITS: dict[str, tuple[Edit, str]] = {
    "rows overlap": (
        with_stage(0, shards=row_shards((0, 5), (4, 8))),
        "stage 's0', tensor 'a': [0:1, 0:2, 0:5, 0:4] and [0:1, 0:2, 4:8, 0:4] overlap",
    ),
    "rows leave a gap": (
        with_stage(0, shards=row_shards((0, 3), (4, 8))),
        "stage 's0', tensor 'a': [0:1, 0:2, 3:4, 0:4] is owned by nobody",
    ),
    "rows beyond the tensor": (
        with_stage(0, shards=row_shards((0, 4), (4, 9))),
        "stage 's0', tensor 'a': [0:1, 0:2, 4:9, 0:4] leaves the tensor",
    ),
    "box of another rank": (
        with_stage(0, shards=(Shard("left", {"a": Region(((0, 8),))}),)),
        "stage 's0', tensor 'a': [0:8] has 1 axes, the tensor has 4",
    ),
    "box of another tensor": (
        with_stage(0, shards=row_shards((0, 4), (4, 8), tensor="b")),
        "stage 's0', device 'left': 'b' is no output of the stage",
    ),
    "unknown device": (
        with_stage(2, shards=(Shard("moon"),)),
        "stage 's2' uses device 'moon', allowed: left, right",
    ),
    "unknown layer": (
        with_stage(0, layers=("first", "tenth")),
        "stage 's0' names layer 'tenth', which the model does not have",
    ),
    "layer in two stages": (
        with_stage(1, layers=("first", "second")),
        "layer 'first' is in stages 's0' and 's1'",
    ),
    "layer twice in a stage": (
        with_stage(1, layers=("second", "second")),
        "stage 's1' has no layers, or one of them twice",
    ),
    "no layers, and a merge": (
        with_stage(1, layers=(), merge=(Shard("left"),)),
        "stage 's1' has no layers, or one of them twice",
    ),
    "layer forgotten": (with_order(0, 1), "layer 'mean' is in no stage (1 such layers)"),
    "stage name twice": (with_stage(1, name="s0"), "stage name 's0' is used 2 times"),
    "order broken": (with_order(1, 0, 2), "stage 's1' reads 'a' before a stage makes it"),
    "no shards": (with_stage(0, shards=()), "stage 's0' has no shards"),
    "two shards, not divided": (
        with_stage(2, shards=(Shard("left"), Shard("right"))),
        "stage 's2' is not split and has 2 shards, allowed: 1",
    ),
    "device twice everywhere": (
        with_stage(2, axis="everywhere", shards=(Shard("left"), Shard("left"))),
        "stage 's2' is whole on device 'left' 2 times",
    ),
    "shares of what is no replica": (
        with_stage(2, shares=(1,)),
        "stage 's2' has shares and axis 'none', allowed: with axis 'replica'",
    ),
    "a share too few": (
        with_stage(2, axis="replica", shards=BOTH, shares=(1,)),
        "stage 's2' has 1 shares, allowed: 2, one for each shard",
    ),
    "a share of nothing": (
        with_stage(2, axis="replica", shards=BOTH, shares=(3, 0)),
        "stage 's2' has shares 3, 0, allowed: 1 or more each, 1000 or less in all",
    ),
    "shares too fine": (
        with_stage(2, axis="replica", shards=BOTH, shares=(1000, 1)),
        "stage 's2' has shares 1000, 1, allowed: 1 or more each, 1000 or less in all",
    ),
    "boxes of a whole stage": (
        with_stage(2, shards=row_shards((0, 8))),
        "stage 's2' has axis 'none', whose shards have no boxes",
    ),
    "another model": (
        with_plan(model=MODEL),
        "it is for model 'small' (000000000000), got 'small'",
    ),
    "another cluster": (
        with_plan(cluster=LAB),
        "it is for cluster 'cluster' with other devices, kinds, links or requester than 'cluster'",
    ),
    "nothing in flight": (with_plan(in_flight=0), "key 'in_flight' is 0, allowed: 1 or more"),
    "unknown wire": (
        with_plan(wires={"a": "float8"}),
        "wires.a is 'float8', allowed: raw, float16, uint8, uint6, uint4, uint3, uint2, uint1",
    ),
    "wire of no tensor": (
        with_plan(wires={"z": "float16"}),
        "wires names tensor 'z', which the model does not have",
    ),
    "kept tensor unknown": (
        with_plan(keep_on={"z": "left"}),
        "keep_on names tensor 'z', which the model does not have",
    ),
    "keeper unknown": (
        with_plan(keep_on={"x": "moon"}),
        "keep_on.x names device 'moon', allowed: left, right",
    ),
    "input channels without merge": (
        with_stage(0, axis="input_channels"),
        "stage 's0' is split by input_channels and needs key 'merge'",
    ),
    "merge of two layers": (
        lambda plan: msgspec.structs.replace(
            plan,
            stages=(
                Stage("s0", ("first", "second"), "input_channels", (part(X),), (Shard("left"),)),
                plan.stages[2],
            ),
        ),
        "stage 's0' has a merge, but is not one layer that can be summed in parts",
    ),
    "parts along an axis that is not summed": (
        with_stage(
            0,
            axis="input_channels",
            shards=(
                part(((0, 1), (0, 2), (0, 4), (0, 4))),
                part(((0, 1), (0, 2), (4, 8), (0, 4))),
            ),
            merge=(Shard("left"),),
        ),
        "stage 's0', tensor 'x': [0:1, 0:2, 0:4, 0:4] divides axis 2, allowed: 1",
    ),
    "parts leave a gap": (
        with_stage(
            0,
            axis="input_channels",
            shards=(part(((0, 1), (0, 1), (0, 8), (0, 4))),),
            merge=(Shard("left"),),
        ),
        "stage 's0', tensor 'x': [0:1, 1:2, 0:8, 0:4] is owned by nobody",
    ),
    "parts of another tensor": (
        with_stage(0, axis="input_channels", merge=(Shard("left"),)),
        "stage 's0': each shard needs one box, of the layer's input 'x'",
    ),
    "merge leaves a gap": (
        with_stage(
            0,
            axis="input_channels",
            shards=(part(X),),
            merge=(Shard("left", {"a": Region(((0, 1), (0, 2), (0, 4), (0, 4)))}),),
        ),
        "stage 's0' merge, tensor 'a': [0:1, 0:2, 4:8, 0:4] is owned by nobody",
    ),
    "merge by an unknown device": (
        with_stage(0, axis="input_channels", shards=(part(X),), merge=(Shard("moon"),)),
        "stage 's0' uses device 'moon', allowed: left, right",
    ),
}


def test_the_plan_before_any_edit_is_sound() -> None:
    """What the other tests edit has no faults."""
    check_plan(GRAPH, halves(GRAPH, CLUSTER), CLUSTER)


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_plan_is_refused(name: str) -> None:
    """The error is one line that says which rule is broken and where."""
    edit, words = EDITS[name]
    with pytest.raises(PlanError) as caught:
        check_plan(GRAPH, edit(halves(GRAPH, CLUSTER)), CLUSTER)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


def test_all_faults_are_told_at_once() -> None:
    """Two edits give one error with both faults."""
    plan = EDITS["unknown device"][0](EDITS["rows overlap"][0](halves(GRAPH, CLUSTER)))
    with pytest.raises(PlanError) as caught:
        check_plan(GRAPH, plan, CLUSTER)
    assert "overlap" in str(caught.value)
    assert "'moon'" in str(caught.value)


def test_a_missing_link_is_named() -> None:
    """A transfer between devices that cannot talk is refused, with tensor and both devices."""
    lab = pair(links=False)
    with pytest.raises(PlanError, match=r"'b' from 'right' to 'left'.*no such link"):
        build_layout(GRAPH, _one_way(lab), lab)


def _one_way(lab: object) -> Plan:
    return make_plan(
        GRAPH,
        lab,  # type: ignore[arg-type]
        whole("s0", ("first", "second"), "right"),
        whole("s1", ("mean",), "left"),
    )


def test_a_kept_tensor_that_leaves_is_refused() -> None:
    """A plan that sends a kept input away is refused, with tensor and both devices."""
    plan = halves(GRAPH, CLUSTER, keep_on={"x": "left"})
    with pytest.raises(PlanError, match=r"'x' is kept on device 'left'.*from 'left' to 'right'"):
        compile_plan(GRAPH, plan, CLUSTER)


def test_a_kept_tensor_made_elsewhere_is_refused() -> None:
    """A plan that makes a kept tensor on another device is refused."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first", "second", "mean"), "right"),
        keep_on={"y": "left"},
    )
    with pytest.raises(PlanError, match=r"'y' is kept on device 'left'.*makes it on 'right'"):
        compile_plan(GRAPH, plan, CLUSTER)


def test_partial_sums_of_a_kept_tensor_may_not_leave() -> None:
    """Sums that a kept tensor is made of stay where it stays."""
    channels = [((0, 1), (k, k + 1), (0, 8), (0, 4)) for k in (0, 1)]
    shards = tuple(
        Shard(device, {"x": Region(box)})
        for device, box in zip(("left", "right"), channels, strict=True)
    )
    merged = Stage("s0", ("first",), "input_channels", shards, (Shard("left"),))
    plan = make_plan(
        GRAPH, CLUSTER, merged, whole("s1", ("second", "mean"), "left"), keep_on={"a": "left"}
    )
    with pytest.raises(PlanError, match="is kept on device 'left'"):
        compile_plan(GRAPH, plan, CLUSTER)


def test_a_kept_tensor_that_stays_is_honoured() -> None:
    """A plan that keeps the input where it is compiles, and no stream carries it."""
    plan = make_plan(
        GRAPH,
        CLUSTER,
        whole("s0", ("first",), "left"),
        whole("s1", ("second", "mean"), "right"),
        keep_on={"x": "left"},
    )
    program = compile_plan(GRAPH, plan, CLUSTER).program
    assert find_leaks(program, "x", "left") == []
    assert find_leaks(program, "a", "left") != []
