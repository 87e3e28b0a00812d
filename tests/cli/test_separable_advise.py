"""``partita separable advise``: tables for people, one object for programs, and what is refused."""

from pathlib import Path

import pytest

from tests.cli.conftest import Ask

CLUSTER = """
[cluster]
name = "desk"
requester = "a"

[[device]]
name = "a"
kind = "raspberry-pi-3b-plus"

[[device]]
name = "b"
kind = "raspberry-pi-3b-plus"

[[link]]
between = ["*", "*"]
bandwidth = "{rate}"
latency = "1 ms"
"""
ASKED = ("--network", "4x4d-11", "--groups", "2", "--budget", "0.1")


@pytest.fixture
def desk(folder: Path) -> str:
    """Two of the paper's boards on a link of 300 Mbit/s."""
    (folder / "desk.toml").write_text(CLUSTER.format(rate="300 Mbit/s"))
    return "desk.toml"


def test_what_a_cluster_asks_for(desk: str, ask: Ask) -> None:
    """Each device's need, what each staleness serves and takes, shares, and the plain network."""
    reply = ask("separable", "advise", desk, *ASKED, "--json").reply
    assert [need["device"] for need in reply["needs"]] == ["a", "b"]
    assert [one["staleness"] for one in reply["staleness"]] == [1]
    assert reply["best_staleness"] == 1
    alone, both = reply["shares"]
    assert (alone["devices"], both["devices"]) == (["a"], ["a", "b"])
    assert both["macs"] < alone["macs"]
    assert both["weight_bytes"] < alone["weight_bytes"]
    plain = reply["plain"]
    assert plain["divided_s"] <= plain["alone_s"]
    shown = ask("separable", "advise", desk, *ASKED)
    assert shown.code == 0
    for title in ("What devices need", "What staleness serves", "Most of one device"):
        assert title in shown.out
    assert reply["words"][-1].split()[0] in shown.out


def test_halves_take_half_as_long(desk: str, ask: Ask) -> None:
    """Features as 16-bit floats ask for half the rate, nearly: casts take time, too."""
    whole, half = (
        ask("separable", "advise", desk, *ASKED, *more, "--json").reply["staleness"][0]
        for more in ((), ("--halves",))
    )
    assert half["least_bits_per_s"] == pytest.approx(whole["least_bits_per_s"] / 2, rel=0.05)
    assert half["byte_share"] == pytest.approx(whole["byte_share"] / 2)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--network", "4x4-11"), "4x4-11"),
        (("--network", "4x4d-12"), "--network '4x4d-12': depth = 12: allowed is 9 times"),
        (("--groups", "3"), "--groups: groups = 3: allowed for 4 paths are 1, 2, 4"),
        (("--groups", "1"), "--groups"),
    ],
)
def test_what_is_no_network(desk: str, ask: Ask, flags: tuple[str, ...], words: str) -> None:
    """One line names what, and nothing is computed."""
    refused = ask("separable", "advise", desk, *flags)
    assert refused.code == 2
    assert words in refused.message


def test_a_cluster_of_one(folder: Path, ask: Ask) -> None:
    """There is nothing to place on one device."""
    one = CLUSTER.format(rate="1 Mbit/s").partition('[[device]]\nname = "b"')[0]
    (folder / "one.toml").write_text(one)
    refused = ask("separable", "advise", "one.toml", *ASKED)
    assert refused.code == 2
    assert "nothing to place" in refused.message
