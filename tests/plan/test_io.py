"""Plan files: what is written is what is read, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.errors import PlanError
from partita.plan import Identity, Plan, Shard, Stage, dump_plan, hash_plan, load_plan
from partita.regions import LayerBits, Region

BOX = Region(((0, 1), (0, 8), (0, 4), (0, 9)))
PLAN = Plan(
    Identity("net", "a" * 64, "net.onnx?x=1x8x8x9"),
    Identity("lab", "b" * 64),
    (
        Stage("s0", ("conv", "pool"), "rows", (Shard("left", {"y": BOX}), Shard("right"))),
        Stage("s1", ("dense",), "input_channels", (Shard("left", {"y": BOX}),), (Shard("left"),)),
    ),
    planner="by hand",
    seed=7,
    wires={"x": "uint8"},
    in_flight=3,
    keep_on={"x": "left"},
    bits={"conv": LayerBits(weight=4, activation=8, low=-1.0, high=2.5)},
)


def test_round_trip(tmp_path: Path) -> None:
    """A plan is equal after bytes and after a file, and so is its hash."""
    (tmp_path / "p.json").write_bytes(dump_plan(PLAN))
    for source in (dump_plan(PLAN), tmp_path / "p.json", str(tmp_path / "p.json")):
        again = load_plan(source)
        assert again == PLAN
        assert hash_plan(again) == hash_plan(PLAN)


def test_equal_plans_have_equal_bytes() -> None:
    """The order in which tensors were named makes no difference to file and hash."""
    boxes = {"y": BOX, "z": BOX}
    swapped = dict(reversed(boxes.items()))
    plans = [
        Plan(PLAN.model, PLAN.cluster, (Stage("s", ("l",), "rows", (Shard("d", b),)),), "x")
        for b in (boxes, swapped)
    ]
    assert dump_plan(plans[0]) == dump_plan(plans[1])
    assert hash_plan(plans[0]) == hash_plan(plans[1])


def test_the_hash_sees_every_key() -> None:
    """A change of any key gives another hash."""
    data = json.loads(dump_plan(PLAN))
    changes: list[tuple[str, object]] = [
        ("seed", 8), ("in_flight", 2), ("wires", {}), ("keep_on", {}), ("planner", "x"),
        ("objective", "memory"), ("stages", data["stages"][:1]), ("options", {"axes": ["rows"]}),
        ("bits", {}),
    ]  # fmt: skip
    hashes = {
        hash_plan(load_plan(json.dumps(data | {key: value}).encode())) for key, value in changes
    }
    assert len(hashes | {hash_plan(PLAN)}) == len(changes) + 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a plan"),
        ("{", "not a plan"),
        ("[1]", "Expected `object`, got `array`"),
        ("{}", "missing required field `model`"),
        ('{"schema": 3}', "key 'schema': got 3, this version of Partita reads 1 and 2"),
        ('{"schema": "1"}', "key 'schema'"),
    ],
)
def test_files_that_are_no_plan(text: str, words: str, tmp_path: Path) -> None:
    """The error names the file and what is wrong with it, in one line."""
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.subject == str(path)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("stages", 0, "axis"), "columns", "Invalid enum value 'columns' - at `$.stages[0].axis`"),
        (("stages", 0, "layers"), "conv", "Expected `array`, got `str` - at `$.stages[0].layers`"),
        (
            ("stages", 0, "shards", 0, "boxes", "y"),
            [[[0, 1.5]]],
            "Expected `int`, got `float`",
        ),
        (
            ("bits", "conv", "clipping"),
            "least",
            "at `$.bits[...].clipping`; allowed for 'clipping': max, mse, aciq",
        ),
        (("in_flight",), None, "Expected `int`, got `null` - at `$.in_flight`"),
    ],
)
def test_keys_of_the_wrong_type_are_named(
    path: tuple[str | int, ...], value: object, words: str
) -> None:
    """The error says which key has the wrong type, and what it should be."""
    data = json.loads(dump_plan(PLAN))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(PlanError) as caught:
        load_plan(json.dumps(data).encode())
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "place", [(), ("stages", 0), ("stages", 0, "shards", 0), ("model",), ("bits", "conv")]
)
def test_a_misspelt_key_is_refused(place: tuple[str | int, ...]) -> None:
    """A key that no plan has is named: a misspelt ``keep_on`` must not pass for none."""
    data = json.loads(dump_plan(PLAN))
    inner = data
    for key in place:
        inner = inner[key]
    inner["kepe_on"] = {}
    with pytest.raises(PlanError, match="unknown field `kepe_on`"):
        load_plan(json.dumps(data).encode())


def test_a_file_of_the_first_version_is_read() -> None:
    """It has no bits, and is a plan of this version from then on."""
    data = json.loads(dump_plan(PLAN))
    del data["bits"]
    old = load_plan(json.dumps(data | {"schema": 1}).encode())
    assert old == load_plan(json.dumps(data | {"schema": 2}).encode())
    assert old.bits == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A plan file that is not there is told by name."""
    with pytest.raises(PlanError, match=r"gone\.json' cannot be read: No such file"):
        load_plan(tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"in_flight": 3', '"in_flight": 1001', "key 'in_flight': got 1001, allowed: 1 to 1000"),
        ('"in_flight": 3', '"in_flight": 0', "key 'in_flight': got 0, allowed: 1 to 1000"),
        ('"seed": 7', '"seed": -7', "key 'seed': got -7"),
        ('"rows"', '"lines"', "stages[0].axis`; allowed for 'axis': none, everywhere, rows, tiles"),
        ('"device": "left"', '"devise": "left"', "keys here are device, boxes"),
        ('"planner"', '"plenner"', "keys here are model, cluster, stages, planner"),
        ("net.onnx", "net\\u0000", "key 'model.path'"),
        ("net.onnx", "n" * 5000, "key 'model.path'"),
    ],
)
def test_values_out_of_range_are_named(old: str, new: str, expected: str) -> None:
    """The message names the key, what was got and what is allowed."""
    text = dump_plan(PLAN).decode()
    assert old in text
    with pytest.raises(PlanError) as caught:
        load_plan(text.replace(old, new, 1).encode())
    assert expected in caught.value.message


def test_a_device_file_is_not_read_for_ever() -> None:
    """A path that is no regular file is refused at once."""
    with pytest.raises(PlanError, match="no regular file"):
        load_plan("/dev/zero")
