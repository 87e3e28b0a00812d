"""Results survive an interruption, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.errors import InputError
from partita.reproduce.cache import ResultCache
from partita.reproduce.study import Outcome

_KEY = {"planner": "aofl", "seed": 3}


def test_a_result_comes_back_equal(tmp_path: Path) -> None:
    """What was kept is found by an equal key in another process's cache, and only by that."""
    outcome = Outcome(0.25, 4.0, {"a": 0.1}, {"a": 0.05}, 3, 1.5, 20)
    ResultCache(tmp_path).put(_KEY, outcome)
    assert ResultCache(tmp_path).get(dict(reversed(_KEY.items())), Outcome) == outcome
    assert ResultCache(tmp_path).get(_KEY | {"seed": 4}, Outcome) is None


def test_numbers_as_keys_come_back(tmp_path: Path) -> None:
    """A file of JSON has no keys but text."""
    kept = {8: 0.5, 16: 1.0}
    ResultCache(tmp_path).put(_KEY, kept)
    assert ResultCache(tmp_path).get(_KEY, dict[int, float]) == kept


def test_a_damaged_file_is_no_result(tmp_path: Path) -> None:
    """Half a file, or one of another kind, is as good as none."""
    cache = ResultCache(tmp_path)
    cache.put(_KEY, Outcome())
    (path,) = tmp_path.iterdir()
    for text in (path.read_text()[:40], "[]", '{"result": {"latency_s": "fast"}}'):
        path.write_text(text)
        assert cache.get(_KEY, Outcome) is None


def test_a_folder_that_cannot_be_is_bad_input(tmp_path: Path) -> None:
    """A file in the folder's place is told in one line."""
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(InputError, match="--cache"):
        ResultCache(taken).put(_KEY, Outcome())


def test_a_folder_that_cannot_be_is_found_before_the_work(tmp_path: Path) -> None:
    """Whoever finds no result there is told that none could be kept."""
    with pytest.raises(InputError, match=r"cannot be kept in '/proc/gone'.*--cache"):
        ResultCache(Path("/proc/gone")).get(_KEY, Outcome)
