"""The documentation agrees with the code, and the checker sees when it does not."""

import re
from pathlib import Path

import pytest
from tools import check_docs, surface

from partita.cluster import THIS_MACHINE
from partita.cluster.catalogue import catalogue_names
from partita.cluster.link_kinds import load_link_kinds


def _read_documents() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in check_docs.list_documents())


def test_every_command_flag_and_name_is_documented() -> None:
    """README and docs name every command, every flag and every exported name."""
    assert check_docs.find_undocumented(_read_documents()) == []


def test_no_path_of_one_machine() -> None:
    """No file of the project names a path that exists on one machine only."""
    assert check_docs.find_foreign_paths() == []


def test_missing_word_is_a_fault() -> None:
    """A flag that is only part of a longer flag in the text counts as missing."""
    faults = check_docs.find_unnamed({"--in": "Flag"}, "use --in-flight")
    assert faults == ["Flag '--in' is not in README.md or docs/. Describe it there."]
    assert check_docs.find_unnamed({"--in": "Flag"}, "use `--in` here") == []


def test_foreign_path_is_found(tmp_path: Path) -> None:
    """A home folder in a document is reported with its line; a web address is not."""
    folder = "/".join(("", "home", "someone"))
    (tmp_path / "README.md").write_text(f"fine: https://example.com/home/page\n{folder}\n")
    assert check_docs.find_foreign_paths(tmp_path) == ["README.md:2 names a path of one machine."]


def test_marked_blocks_run_in_order(tmp_path: Path) -> None:
    """Marked blocks share a folder and run in order; unmarked blocks are left alone."""
    document = tmp_path / "guide.md"
    document.write_text(
        "<!-- run -->\n```console\n$ echo 7 > n.txt\nprinted text is ignored\n```\n"
        "<!-- run -->\n```python\nassert open('n.txt').read().strip() == '7'\n```\n"
        "```python\nraise SystemExit(9)\n```\n"
    )
    assert len(check_docs.list_blocks(document)) == 2
    assert check_docs.run_blocks(document) == []


@pytest.mark.parametrize("block", ["```console\n$ exit 3\n```\n", "```python\n1 / 0\n```\n"])
def test_failing_block_is_a_fault(tmp_path: Path, block: str) -> None:
    """A block that fails is reported with file, line and exit code."""
    document = tmp_path / "guide.md"
    document.write_text(f"<!-- run -->\n{block}")
    (fault,) = check_docs.run_blocks(document)
    assert fault.startswith("guide.md:3 failed (")


def list_kinds(text: str) -> list[str]:
    """Kinds of devices and links that TOML blocks of a document name."""
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    return [kind for block in blocks for kind in re.findall(r'^\s*kind = "([^"]+)"', block, re.M)]


def test_kinds_in_examples_exist() -> None:
    """Whoever copies an example is not refused; a kind that is none would be found."""
    known = {*catalogue_names(), *load_link_kinds(), THIS_MACHINE}
    assert set(list_kinds(_read_documents())) <= known
    assert list_kinds('```toml\n[[device]]\nkind = "none-such"\n```') == ["none-such"]


def test_error_tree_is_drawn_in_its_module() -> None:
    """The tree at the top of the error module names every error class."""
    from partita import errors

    tree = errors.__doc__ or ""
    assert [name for name in surface.list_errors() if name not in tree] == []
