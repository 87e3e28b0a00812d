"""``partita plan --want``: how many boards a wish takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.cli.actions.want import parse_wish
from partita.errors import InputError
from partita.planners.sizing import Wish
from tests.cli.conftest import Answer, Ask

OFFER = """
[cluster]
name = "offer"
requester = "cam"

[[device]]
name = "cam"
kind = "raspberry-pi-3"
computes = false

[[device]]
name = "three"
kind = "raspberry-pi-3"

[[device]]
name = "four"
kind = "raspberry-pi-4"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
latency = "10 us"
"""


@pytest.fixture
def want(folder: Path, ask: Ask) -> Ask:
    """Return what asks for boards of an offer of two kinds."""
    (folder / "offer.toml").write_text(OFFER)

    def run(*flags: str) -> Answer:
        files = ("m.onnx", "--cluster", "offer.toml")
        return ask("plan", *files, "--planner", "collaborative", *flags)

    return run


def test_the_cheapest_kind_is_planned_and_its_cluster_written(
    folder: Path, want: Ask, ask: Ask
) -> None:
    """The plan runs in simulation on the cluster file beside it."""
    prices = ("--price", "raspberry-pi-3=1", "--price", "raspberry-pi-4=100")
    answer = want("--want", "50/s", *prices, "-o", "wanted.json", "--json")
    assert answer.code == 0, answer.err
    boards = {one["kind"]: one for one in answer.reply["boards"]}
    assert boards["raspberry-pi-3"]["price"] == boards["raspberry-pi-3"]["count"]
    assert all(one["is_met"] for one in boards.values())
    assert answer.reply["file"] == "wanted.json"
    simulated = ask("simulate", "wanted.json", "--json")
    assert simulated.code == 0, simulated.err
    names = [device["name"] for device in simulated.reply["devices"]]
    assert all(name == "cam" or name.startswith("three-") for name in names)


def test_only_its_own_cluster_file_is_written_over(folder: Path, want: Ask) -> None:
    """The second file of -o is not named: one that is there and another's is left as it is."""
    (folder / "mine.toml").write_text(OFFER)
    flags = ("--want", "1/s", "-o")
    for name, words in (
        ("mine.json", "File 'mine.toml' is there already: -o mine.json"),
        ("offer.json", "File 'offer.toml' is there already: -o offer.json"),
        ("plan.toml", "another ending, such as .json"),
    ):
        answer = want(*flags, name)
        assert answer.code == 2
        assert words in answer.message
        assert not (folder / name).exists()
    assert (folder / "mine.toml").read_text() == OFFER
    for _ in range(2):
        answer = want(*flags, "new.json")
        assert answer.code == 0, answer.err
        assert "Written to new.json, its cluster to new.toml" in answer.out


def test_what_no_number_reaches_is_said_with_what_comes_nearest(folder: Path, want: Ask) -> None:
    """One line, exit code 3, and nothing written."""
    answer = want("--want", "1 us", "-o", "wanted.json")
    assert answer.code == 3
    last = answer.err.strip().splitlines()[-1]
    assert "No number of boards up to 64 was found to reach 1 us: " in last
    assert "x 'raspberry-pi-4' reach" in last
    assert not list(folder.glob("wanted.*"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--want", "soon"), "--want: 'soon' is not a number with a unit"),
        (("--want", "0/s"), "--want: '0/s' is not above zero"),
        (("--want", "1e400/s"), "--want: '1e400/s' is too large a number"),
        (("--want", "5/s", "--price", "pi=3"), "does not offer"),
        (("--want", "5/s", "--price", "raspberry-pi-3=free"), "must be a number of at least 0"),
        (("--want", "5/s", "--price", "raspberry-pi-3=-1"), "must be a number of at least 0"),
        (("--want", "5/s", "--real"), "--real has none"),
        (("--want", "5/s", "--keep-on", "three=x"), "leave them out"),
        (("--want", "5/s", "--energy-limit", "three=1"), "leave them out"),
        (("--want", "5/s", "--objective", "memory"), "leave out --objective memory"),
        (("--price", "raspberry-pi-3=3"), "--price is for --want alone"),
    ],
)
def test_wishes_that_cannot_be_read(want: Ask, flags: tuple[str, ...], words: str) -> None:
    """One line that says what is allowed."""
    answer = want(*flags)
    assert answer.code == 2
    assert words in answer.message


def test_wishes() -> None:
    """Answers per second, or the time of one."""
    assert parse_wish("5/s") == parse_wish(" 5.0 / s ") == Wish(per_second=5.0)
    assert parse_wish("200 ms") == Wish(latency_s=0.2)
    assert parse_wish("1e300/s") == Wish(per_second=1e300)
    with pytest.raises(InputError, match="--want: '5' has no unit"):
        parse_wish("5")


def test_one_request_in_flight_is_one(want: Ask) -> None:
    """What is asked for is kept, though it is also the usual number elsewhere."""
    for flags, expected in (((), 2), (("--in-flight", "1"), 1)):
        answer = want("--want", "1/s", *flags, "-o", "wanted.json", "--json")
        assert answer.code == 0, answer.err
        assert json.loads(Path("wanted.json").read_text()).get("in_flight", 1) == expected


def test_what_there_was_no_time_for_is_said(want: Ask) -> None:
    """In the error, in the table's company and in JSON."""
    answer = want("--want", "1 us", "--budget", "0")
    assert answer.code == 3
    last = answer.err.strip().splitlines()[-1]
    assert "No number of boards that was tried was found to reach 1 us" in last
    assert "Time ended before 2 to 64 x 'raspberry-pi-4' were tried" in last
    answer = want("--want", "1/s", "--budget", "0", "--json")
    assert answer.code == 0, answer.err
    assert [one["untried"] for one in answer.reply["boards"]] == [None, None]


def test_impossible_is_said_with_a_proof_only(folder: Path, want: Ask) -> None:
    """A port's bound, or links that are missing, and no advice that would not help."""
    port = OFFER.replace("computes = false", 'computes = false\nport = "1 kbit/s"')
    unlinked = OFFER[: OFFER.index("[[link]]")]
    for text, words in (
        (port, "at the port of 'cam' of 1 kbit/s, which lets at most"),
        (unlinked, "give the cluster file [[link]] tables"),
    ):
        (folder / "offer.toml").write_text(text)
        answer = want("--want", "50/s", "--budget", "5")
        assert answer.code == 3
        last = answer.err.strip().splitlines()[-1]
        assert "No number of boards up to 64 reaches 50/s: " in last
        assert words in last
        assert "--budget" not in last


def test_searches_that_were_cut_short_are_said(folder: Path, want: Ask) -> None:
    """With the time that all of them had, and without a claim that nothing can hold the network."""
    tight = OFFER
    for kind in ("raspberry-pi-3", "raspberry-pi-4"):
        tight = tight.replace(f'"{kind}"\n\n', f'"{kind}"\nmemory = "3.64 MB"\n\n')
    (folder / "offer.toml").write_text(tight)
    answer = want("--want", "1/s", "--budget", "0")
    assert answer.code == 3
    last = answer.err.strip().splitlines()[-1]
    assert "was found to reach 1/s" in last
    assert "as all together have 0 us" in last
    assert "can hold" not in last
