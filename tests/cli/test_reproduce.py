"""``partita reproduce`` answers in tables, sentences, JSON and pictures; odd flags are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.cli.actions.reproduce import format_table, make_figures, parse_seeds
from partita.errors import InputError
from partita.report.tables import NOTHING
from partita.reproduce.figure import (
    _FIGURES,
    Drawn,
    Kind,
    Paper,
    Table,
    figure,
    find_figures,
)
from partita.reproduce.study import Study
from tests.cli.conftest import Ask


def test_a_figure_has_tables_claims_and_a_chart(ask: Ask, folder: Path) -> None:
    """The reply has rows, what the paper says beside ours, and the chart's file."""
    answer = ask("reproduce", "distredge", "--figure", "11", "-o", "charts", "--json")
    assert answer.code == 0
    (table,) = answer.reply["tables"]
    assert (table["figure"], len(table["rows"])) == (11, 4)
    assert all(len(row) == len(table["columns"]) for row in table["rows"])
    (claim,) = answer.reply["claims"]
    assert claim["holds"] is True
    (file,) = answer.reply["files"]
    assert (folder / file).read_bytes().startswith(b"\x89PNG")


def test_a_table_is_asked_for_by_its_kind(ask: Ask) -> None:
    """``--table`` gives a table; of a paper of tables alone ``--figure`` means the same."""
    for flag in ("--table", "--figure"):
        answer = ask("reproduce", "loading", flag, "1", "--models", "resnet152", "--json")
        assert answer.code == 0
        (note,) = answer.reply["notes"]
        assert note.startswith("Table 1 has none of the models asked for")


def test_a_study_is_found_by_kind_and_number(tmp_path: Path) -> None:
    """A paper's figures and tables may have the same numbers; the reply tells them apart."""
    paper = Paper("both", ())

    def make(kind: Kind) -> None:
        drawn = Drawn((Table(kind, ("a",), ()),), (), ())
        figure(paper, 1, f"the {kind}", kind=kind)(lambda bench: drawn)

    make("table")
    make("figure")
    try:
        assert [one.title for one in find_figures("both")] == ["the figure", "the table"]
        (found,) = find_figures("both", [("table", 1)])
        assert (found.kind, found.title) == ("table", "the table")
        with pytest.raises(InputError, match=r"Figure 2 of 'both' .* figures 1; tables 1"):
            find_figures("both", [("figure", 2)])
        tables = make_figures("both", (), Study(), tmp_path, None).payload["tables"]
        assert [(one.get("figure"), one.get("table")) for one in tables] == [(1, None), (None, 1)]
    finally:
        del _FIGURES[paper]


def test_people_read_a_sentence(ask: Ask) -> None:
    """Without ``--json`` the claim is a plain sentence, below its table."""
    out = ask("reproduce", "distredge", "--figure", "11").out
    assert 'our simulation bears out "averages change significantly at 20 and 40 minutes"' in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["distredge", "--figure", "3"],
            "Figure 3 of 'distredge' is not reproduced; allowed: figures 4,",
        ),
        (["nobody"], "Paper 'nobody' is unknown; allowed: autosplit, collaborative, distredge"),
        (["distredge", "--seeds", "4-2"], "--seeds '4-2' is not understood"),
        (["distredge", "--figure", "9", "--models", "vgg17"], "Model 'vgg17' is not in the zoo"),
        (["distredge", "--images", "0"], "got 0, allowed: 1 to 1000000"),
        (["distredge", "--episodes", "0"], "must be at least 1"),
        (["distredge", "--trials", "3"], "--trials changes nothing of 'distredge'; allowed: "),
        (["distredge", "--cold"], "--cold changes nothing of 'distredge'"),
        (["loading", "--seeds", "0"], "--seeds changes nothing of 'loading'; allowed: --table, "),
        (
            ["distredge", "--table", "6"],
            "--table changes nothing of 'distredge'; allowed: --figure",
        ),
        (["loading", "--cache", "c"], "--cache changes nothing of 'loading'"),
        (
            ["loading", "--table", "4"],
            "Table 4 of 'loading' is not reproduced; allowed: tables 1, 2",
        ),
        (
            ["collaborative", "--figure", "11", "--real"],
            "Figure 11 of 'collaborative' is not run on emulated devices; allowed: figures 17.",
        ),
        (["distredge", "--real"], "--real changes nothing of 'distredge'; allowed: --figure"),
        (["loading", "--figure", "4"], "Table 4 of 'loading' is not reproduced; allowed: tables 1"),
        (["loading", "--models", "vgg16"], "Model 'vgg16' is not one of the paper's"),
        (["loading", "--trials", "0"], "got 0, allowed: 1 to 1000"),
    ],
)
def test_bad_flags_are_refused(ask: Ask, words: list[str], told: str) -> None:
    """What cannot be reproduced is bad input, in one line, before anything runs."""
    answer = ask("reproduce", *words, "--json")
    assert answer.code == 2
    assert told in answer.reply["error"]["message"]


def test_seeds_are_ranges_and_lists() -> None:
    """Ranges hold both ends; doubles count once."""
    assert parse_seeds("0-2,7,1") == (0, 1, 2, 7)
    with pytest.raises(InputError):
        parse_seeds("0-1000000")


def test_large_numbers_are_written_out() -> None:
    """Milliseconds of a second and more are no powers of ten."""
    row = (1062.4, 999.6, 99.96, 0.01234, None, "x", 7)
    shown = format_table(Table("t", tuple("abcdefg"), (row,)))
    assert shown.rows == (("1062", "1000", "100", "0.0123", NOTHING, "x", "7"),)
