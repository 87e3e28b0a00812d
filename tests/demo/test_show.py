import io

from rich.console import Console

from partita.demo.show import print_demo
from tests.demo.samples import make_result


def _printed(result):
    console = Console(file=io.StringIO(), width=100)
    print_demo(result, console)
    return console.file.getvalue()


def test_everything_that_was_asked_is_printed():
    """The page names text, plan, both latencies, speed-up, bytes and the difference."""
    page = _printed(make_result())
    for words in (
        "A12345 (as drawn)",
        "hand (feasible)",
        "60 %",
        "best single device (box, camera, idle)",
        "100 ms",
        "110 ms",
        "+10.0 %",
        "2.00x over the best single device",
        "2 kB per photo",
        "0.0e+00 from the whole model",
        "rounding only",
    ):
        assert words in page


def test_wrong_answers_are_not_hidden():
    """A misread plate and a real difference are said as such."""
    page = _printed(make_result(read="A12346", difference=0.5))
    assert "A12346 (drawn: A12345)" in page
    assert "NOT the same answer" in page
