import io

from rich.console import Console

from partita.demo.show import describe_shares, print_demo
from tests.demo.samples import make_plan, make_result


def _printed(result):
    console = Console(file=io.StringIO(), width=100)
    print_demo(result, console)
    return console.file.getvalue()


def test_everything_that_was_asked_is_printed():
    """The page names text, plan, both latencies, speed-up, bytes and the difference."""
    page = _printed(make_result())
    for words in (
        "A12345 (as drawn)",
        "Plan by 'hand' (feasible)",
        "box 60%, camera 40%",
        "100 ms",
        "110 ms",
        "+10.0%",
        "2.00x the best single device",
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


def test_shares_of_a_stage():
    """Shares are of owned elements; a stage without boxes names its devices."""
    body, tail = make_plan().stages
    assert describe_shares(body) == "box 60%, camera 40%"
    assert describe_shares(tail) == "camera"
