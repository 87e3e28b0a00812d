"""Files and functions keep their caps, and the checker sees when they do not."""

from tools import check_sizes


def test_all_within_the_caps() -> None:
    """No file, function or signature of the project is larger than the style allows."""
    folders = check_sizes.FOLDERS
    assert [f for name in folders for f in check_sizes.check_folder(check_sizes.ROOT, name)] == []


def test_each_cap_can_break() -> None:
    """A long file, a long function and a long signature are each one fault; self is not counted."""
    body = "    x = 1\n" * 50
    source = (
        f"def long():\n{body}"
        "def wide(a, b, c, d, e, f): ...\n"
        "class K:\n    def fits(self, a, b, c, d, e, *, f=1): ...\n" + "\n" * 350
    )
    faults, functions = check_sizes.find_faults("x.py", source)
    assert [fault.split(":")[0] for fault in faults] == ["x.py is too long", "x.py", "x.py"]
    assert {function.positional for function in functions} == {0, 5, 6}


def test_flags_of_a_command_are_not_positional() -> None:
    """A verb of the command line may have as many flags as it needs; another function may not."""
    signature = "def verb(a, b, c, d, e, f): ...\n"
    assert check_sizes.find_faults("src/partita/cli/commands/verb.py", signature)[0] == []
    assert len(check_sizes.find_faults("src/partita/cli/actions/verb.py", signature)[0]) == 1


def test_broken_file_is_a_fault() -> None:
    """A file that does not parse is reported with its line."""
    assert check_sizes.find_faults("x.py", "a = (\n")[0] == [
        "x.py:1 is no Python: '(' was never closed."
    ]
