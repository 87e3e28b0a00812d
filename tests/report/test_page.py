"""The HTML page is well formed, self-contained, and shows what the bundle holds."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import pytest
from tests.report.samples import make_bundle, make_plan, make_report, rename

from partita.execution import DeviceUse, Span
from partita.plan import Shard, Stage
from partita.report import Checked, Picture, ReportBundle
from partita.report.markup import element, escape
from partita.report.page import write_page

VOID = {"meta"}
ODD = "a<b>&\"'$x$]]>\x00\x1b\ud800{}[red]\n--></style><script>alert(1)</script>"


class Outline(HTMLParser):
    """Checks that tags nest, and collects tags, text and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onclick"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself."""
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost tag."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.texts.append(data)


def strip_spans(bundle: ReportBundle) -> ReportBundle:
    """Return the bundle as it is where tracing was off and nothing was answered."""
    run = make_report()
    bare = type(run)(run.planner, run.seed, (), 0.0, run.devices, run.links)
    return replace(bundle, predicted=bare, measured=bare)


BUNDLES = {
    "full": make_bundle(),
    "many requests": make_bundle(requests=20),
    "plan alone": ReportBundle("t", make_plan()),
    "predicted alone": ReportBundle("t", make_plan(), make_report()),
    "measured alone": ReportBundle("t", make_plan(), measured=make_report()),
    "nothing answered": strip_spans(make_bundle()),
    "odd names": rename(make_bundle(), ODD),
}


@pytest.mark.parametrize("name", sorted(BUNDLES))
def test_page_is_well_formed(name: str) -> None:
    """Every tag closes in order, every picture is XML, and only known tags occur."""
    page = write_page(BUNDLES[name])
    outline = Outline(page)
    assert outline.open == []
    assert "script" not in outline.tags
    assert page.encode("utf-8")
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(picture)


@pytest.mark.parametrize("name", sorted(BUNDLES))
def test_page_needs_nothing_else(name: str) -> None:
    """No address of another file or host is in the page, but for the name of the SVG format."""
    page = write_page(BUNDLES[name]).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=|href=", page)


def test_odd_names_are_text() -> None:
    """Markup in a name arrives as text; what no page may hold is replaced."""
    texts = "".join(Outline(write_page(BUNDLES["odd names"])).texts)
    assert "<script>alert(1)</script>" in texts
    assert "\x00" not in texts
    assert "\N{REPLACEMENT CHARACTER}" in texts


def test_page_shows_every_part() -> None:
    """Plan, run, timeline, busy shares, check, bound, best single device and planners are there."""
    texts = " ".join(Outline(write_page(make_bundle())).texts)
    words = (
        "Plan", "Run of 1 request", "latency, p99", "Timeline", "Busy share of the run", "Devices",
        "Links", "What was checked", "3.1e-06", "12.5", "3 inputs", "lower bound", "71 ms",
        "best single device nano-2", "212 ms", "worth splitting", "Latency by planner",
        "camera → nano-1", "predicted (upper)", "measured (lower)", "A12345",
    )  # fmt: skip
    assert [word for word in words if word not in texts] == []


def test_failed_check_and_slow_down_are_not_green() -> None:
    """A difference that is not allowed, and a plan slower than one device, are marked bad."""
    bundle = make_bundle()
    assert bundle.checked is not None
    worse = replace(bundle, checked=replace(bundle.checked, passed=False), best_single_s=0.05)
    page = write_page(worse)
    assert page.count('class="bad"') == 3
    assert "NOT the same answer" in page
    assert 'class="good"' not in page


def test_markup_escapes_once() -> None:
    """Text is escaped, markup is left alone, attributes are quoted."""
    assert element("p", escape("a & b"), title='"x"') == '<p title="&quot;x&quot;">a &amp; b</p>'


def test_pictures_lie_within_the_page() -> None:
    """A picture is data of the page itself, with words for those who do not see it."""
    page = write_page(replace(make_bundle(), pictures=(Picture("Seen", b"png", "A <car>."),)))
    assert 'src="data:image/png;base64,cG5n" alt="A &lt;car&gt;."' in page
    assert "<h2>Seen</h2>" in page


def test_the_page_says_what_decides() -> None:
    """In words and as a table; nothing of it where no steps were recorded."""
    assert "Critical path" in write_page(make_bundle())
    told = r"Decides: [a-z][\w-]* computing takes \d+% of the latency"
    assert re.search(told, write_page(make_bundle()))
    assert "Critical path" not in write_page(strip_spans(make_bundle()))


def test_a_loose_bound_is_called_so() -> None:
    """As in the terminal: below a third of what is predicted."""
    tight = write_page(make_bundle())
    assert ">71 ms</dd>" in tight
    loose = write_page(replace(make_bundle(), lower_bound_s=0.02))
    assert ">20 ms (a loose bound)</dd>" in loose


def test_what_is_wider_than_the_page_scrolls_with_a_shadow() -> None:
    """Every table and chart lies in a frame that scrolls, and frames show where they are cut."""
    page = write_page(make_bundle())
    wide = re.findall(r"(<div class=\"scroll\">)?<(?:table|svg)\b", page)
    assert len(wide) > 5
    assert all(wide)
    (frame,) = re.findall(r"^\.scroll \{.*?\}", page, re.DOTALL | re.MULTILINE)
    assert "overflow-x: auto" in frame
    assert frame.count("no-repeat local") == frame.count("no-repeat scroll") == 2


def test_outputs_that_are_small_by_nature_have_another_measure() -> None:
    """The share is of what rounding means there, and the page says of what."""
    checked = Checked(1.5e-6, 1.6e-5, 3, passed=True, scale=0.75)
    assert checked.relative == pytest.approx(2e-6)
    page = write_page(replace(make_bundle(), checked=checked))
    assert "2.0e-06 of 0.75, as outputs are small by nature" in page
    assert "2.5e-07 of the largest output" in write_page(make_bundle())


def test_pages_of_many_devices_say_what_they_leave_out() -> None:
    """Every device stays named in the plan; lanes and links beyond the busiest are counted."""
    names = [f"board-{number}" for number in range(100)]
    uses = tuple(DeviceUse(name, number / 100, 1) for number, name in enumerate(names))
    spans = tuple(Span(name, "compute", 0, "s", 0, 0.0, 0.5) for name in names)
    run = msgspec.structs.replace(make_report(), devices=uses, links=(), spans=spans)
    stage = Stage("s", ("l",), "everywhere", tuple(map(Shard, names)))
    plan = msgspec.structs.replace(make_plan(), stages=(stage,))
    page = write_page(ReportBundle("many", plan, predicted=run))
    assert f"whole: {', '.join(names)}" in page
    assert "Busy share of the run, the 60 busiest of 100" in page
    assert "the 60 busiest of 100 lanes" in page
