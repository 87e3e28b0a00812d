"""A bundle takes its place at once, and nothing else is ever removed for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from partita.errors import BundleError
from partita.loading import Division, load_bundle, write_bundle
from partita.loading.write import atomic_folder
from partita.loading.write.atomic_folder import open_replacement
from tests.cost.fakes import conv_graph


def split(folder: Path, *ends: int) -> None:
    """Write a bundle."""
    write_bundle(conv_graph(), [Division("s", ends)], folder)


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "names",
    [
        ("manifest.json",),
        ("manifest.json", "src/thesis.txt"),
        ("manifest.json", "model.onnx", "fragment-0.onnx"),
        ("bundle", "notes.txt"),
        ("bundle", "s/notes.txt"),
        ("bundle", "other/weights.txt"),
    ],
)
def test_what_is_no_bundle_stays(tmp_path: Path, names: tuple[str, ...]) -> None:
    """A folder with anything that no bundle has is not replaced."""
    home = tmp_path / "b"
    if names[0] == "bundle":
        split(home, 3)
    for name in names:
        if name != "bundle":
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("{}")
    before = content(home)
    with pytest.raises(BundleError, match=r"is there and no bundle|which is no part of a bundle"):
        split(home, 1, 3)
    assert content(home) == before


def test_a_damaged_bundle_may_be_replaced(tmp_path: Path) -> None:
    """That is what its error says to do."""
    split(tmp_path / "b", 3)
    (tmp_path / "b" / "manifest.json").write_text("{")
    split(tmp_path / "b", 1, 3)
    load_bundle(tmp_path / "b").close()


def test_a_link_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle that it points to is replaced; so is the current folder."""
    split(tmp_path / "b", 3)
    (tmp_path / "link").symlink_to("b")
    split(tmp_path / "link", 1, 3)
    assert (tmp_path / "link").is_symlink()
    monkeypatch.chdir(tmp_path / "b")
    split(Path("."), 3)
    assert len(load_bundle(tmp_path / "b").variant.children) == 1


@pytest.mark.parametrize("moment", [1, 2])
def test_an_interruption_leaves_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Ctrl-C between taking the old one away and putting the new one there."""
    monkeypatch.setattr(atomic_folder, "_exchange", lambda *_: False)  # as where the system cannot
    split(tmp_path / "b", 3)
    before, rename, calls = content(tmp_path / "b"), Path.rename, []

    def interrupted(self: Path, target: Path) -> Path:
        done = rename(self, target)
        calls.append(target)
        if len(calls) == moment:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        split(tmp_path / "b", 1, 3)
    monkeypatch.undo()
    assert (content(tmp_path / "b") == before) is (moment == 1)
    load_bundle(tmp_path / "b").close()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_there_is_always_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old and the new one take each other's place at once: no moment is without."""
    split(tmp_path / "b", 3)

    def refuse(*_: object) -> None:
        raise AssertionError("a bundle is taken away")

    monkeypatch.setattr(Path, "rename", refuse)
    split(tmp_path / "b", 1, 3)
    assert len(load_bundle(tmp_path / "b").variant.children) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_what_a_process_of_this_number_left_is_removed(tmp_path: Path) -> None:
    """In a container each process may have the same number; one that lives holds a lock."""
    left, held = (tmp_path / f".b-{os.getpid()}-{name}" for name in ("left", "held"))
    for aside in (left, held):
        aside.mkdir()
        os.utime(aside, (0, 0))
    with atomic_folder._lock(held):
        split(tmp_path / "b", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [held.name, "b"]


def test_what_a_killed_process_left_is_put_back(tmp_path: Path) -> None:
    """The old bundle is found again, and nothing of the unfinished one is left."""
    gone = next(number for number in range(2**21, 2, -1) if not Path("/proc", str(number)).exists())
    split(tmp_path / "old", 3)
    aside = tmp_path / f".b-{gone}-x"
    aside.mkdir()
    (tmp_path / "old").rename(aside / "old")
    (aside / "b").mkdir()
    mine = tmp_path / f".b-{os.getpid()}-y"
    mine.mkdir()
    with pytest.raises(RuntimeError), open_replacement(tmp_path / "b"):
        raise RuntimeError
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "b"]
    load_bundle(tmp_path / "b").close()
