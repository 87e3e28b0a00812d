import pytest
from PIL import Image

from partita.demo.save import make_bundle, save_demo
from partita.errors import InputError
from tests.demo.samples import make_result


def test_files_of_a_result(tmp_path):
    """The folder gets the annotated photo, a page, a timeline and a trace."""
    files = save_demo(make_result(), tmp_path / "new")
    with Image.open(files.photo) as photo:
        assert photo.size == (2 * 96 + 170, 2 * 48)
    assert "A12345" in files.report.page.read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "index.html",
        "photo.png",
        "timeline.png",
        "trace.json",
    ]


def test_folder_that_cannot_be(tmp_path):
    """A file in the folder's place is a one-line error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_demo(make_result(), tmp_path / "file")


def test_report_tells_the_truth():
    """The page shows measured against measured, and says when answers differ."""
    bundle = make_bundle(make_result(difference=0.5), b"png")
    assert bundle.best_single_s == pytest.approx(0.22)
    assert bundle.checked is not None
    assert not bundle.checked.passed
    assert bundle.checked.cases == 3
