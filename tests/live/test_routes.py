"""The page, what it asks for, and metrics, over HTTP and in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import HTMLResponse
from starlette.routing import Route
from tests.live.samples import replay, sample_of, scene_of, stats_of

from partita.errors import InputError, RunError
from partita.leader import Sample
from partita.live import LiveView, live_routes, routes, serve_live, view
from partita.live.page import write_live_page
from partita.live.routes import serve_routes, served_routes

#: A title may hold anything: it comes from a file's name.
TITLE = "net <script>alert(1)</script> on lab"
NAMES = tuple(f"d{n}" for n in range(32))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a page of 32 devices."""
    scene = scene_of(*NAMES, title=TITLE, advice=((("d30",), "one more would give 1.3x"),))
    with serve_live(LiveView(replay(NAMES), lambda plan: scene), 0, "net") as address:
        yield address


def get(address: str, **headers: str) -> tuple[bytes, str]:
    """The body and the type of an answer."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        return answer.read(), answer.headers["Content-Type"]


def refuse(address: str, **headers: str) -> tuple[int, bytes]:
    """The status and the words of an answer that is none."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(address, **headers)
    with caught.value as answer:
        return answer.code, answer.read()


def test_the_page_loads_nothing_else(page: str) -> None:
    """It is one document whose policy lets its own script run and nothing else be loaded."""
    with urllib.request.urlopen(page) as answer:
        text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert not re.search(r"(src|href)=", text)
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2]


def test_snapshots_and_plans_are_json(page: str) -> None:
    """The snapshot has all devices, the plan each device's share of each stage."""
    body, kind = get(page + "live.json")
    now = json.loads(body)
    assert kind == "application/json"
    assert [device["name"] for device in now["devices"]] == list(NAMES)
    plan = json.loads(get(page + "plan.json")[0])
    assert [stage["name"] for stage in plan["stages"]] == ["body", "head"]
    assert plan["stages"][0]["shares"]["d3"] == "replica 3 %"


def test_metrics_are_read_by_prometheus_own_parser(page: str) -> None:
    """Counters, shares by device and states have their names, labels and values."""
    body, kind = get(page + "metrics")
    assert kind.startswith("text/plain; version=")
    found = read_metrics(body)
    own = ("model", "net")
    assert found["partita_requests_total", frozenset([own])] == 0
    device = ("device", "d1")
    assert found["partita_device_state", frozenset([own, device, ("state", "runs")])] == 1
    assert found["partita_device_memory_bytes", frozenset([own, device])] == 20_000_000
    predicted = frozenset([own, device, ("source", "predicted")])
    assert found["partita_device_busy_ratio", predicted] == 0.5


def read_metrics(body: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What Prometheus reads: values by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_each_model_of_a_service_has_a_page_and_its_own_metrics() -> None:
    """Pages lie below the models' names; metrics of all are one document, each family once."""
    views = {name: LiveView(replay(NAMES[:3]), lambda plan: None) for name in ("cat", "dog")}
    with serve_routes(served_routes(views), 0) as address:
        assert b"<script>" in get(address + "live/cat/")[0]
        assert len(json.loads(get(address + "live/dog/live.json")[0])["devices"]) == 3
        body, _ = get(address + "metrics")
    assert body.count(b"# TYPE partita_requests_total") == 1
    found = read_metrics(body)
    for name in views:
        assert ("partita_requests_total", frozenset([("model", name)])) in found


def test_the_list_of_models_has_their_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each model has its link, what it does and how fast, or why it does not or nobody knows."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)

    def over(since: int) -> Sample:
        raise RunError("Model 'fox' is not <deployed>.")

    def down(since: int) -> Sample:
        return sample_of(1.0, {}, down="Device 'd0' is lost.")

    scene = scene_of(*NAMES[:3], title=TITLE)
    views = {
        "cat": LiveView(replay(NAMES[:3]), lambda plan: scene),
        "dog": LiveView(down, lambda plan: None),
        "fox": LiveView(over, lambda plan: None),
    }
    with serve_routes(served_routes(views), 0) as address:
        get(address + "live/")
        listed = get(address + "live/")[0].decode()
        for _ in range(6):
            struck = get(address + "live/")[0].decode()
    assert re.findall(r'href="([^"]*)"', listed) == ["cat/", "dog/", "fox/"]
    cat, dog, fox = re.findall(r"<tr><td>.*?</tr>", listed)
    assert "net &lt;script&gt;alert(1)" in cat
    assert re.findall(r"<td[^>]*>([^<]*)</td>", cat) == ["answers", "10", "120 ms", "5"]
    assert "down: Device &#x27;d0&#x27; is lost." in dog
    assert "no news: Model &#x27;fox&#x27; is not &lt;deployed&gt;." in fox
    assert "answers, without d2" in struck


def test_a_session_that_is_over_is_said_so() -> None:
    """Whoever asks on gets an error with the reason, never silence."""

    def over(since: int) -> Sample:
        raise RunError("The session is closed.")

    with serve_live(LiveView(over, lambda plan: None), 0) as address:
        for path in ("live.json", "plan.json", "metrics"):
            assert refuse(address + path) == (503, b"The session is closed.")


def test_other_sites_cannot_ask_through_a_browser(page: str) -> None:
    """A request for another host's name, which a page elsewhere could make, is refused."""
    status, _ = refuse(page + "live.json", Host="elsewhere.example")
    assert status == 400


def test_a_port_in_use_is_one_clear_line() -> None:
    """The error names the port and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        seen = LiveView(replay(NAMES), lambda plan: None)
        with pytest.raises(InputError, match=f"Port {port} .* in use"), serve_live(seen, port):
            pass


def browse(address: str, folder: Path, *flags: str, time_ms: int = 2000) -> str:
    """The document as the browser has it after so long by its own clock."""
    flags = flags or ("--dump-dom",)
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--virtual-time-budget={time_ms}"]
    words += [f"--user-data-dir={folder}", *flags, address]
    assert CHROMIUM is not None
    done = subprocess.run([CHROMIUM, *words], capture_output=True, timeout=60, check=True)
    return done.stdout.decode()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
def test_a_browser_draws_the_page(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices with shares, links, events and advice are drawn; what is in names is text."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)  # the browser's clock runs ahead of this one
    text = browse(page, tmp_path)
    assert "net &lt;script&gt;alert(1)&lt;/script&gt; on lab" in text
    rows = re.findall(r'<tr class="(\w+)"><td>d\d+', text)
    assert len(rows) == 32
    assert re.search(r'<span id="state" class="good">live</span>', text)
    assert "is the bottleneck" in text
    assert text.count('class="bar send"') == 31  # of which the rate is known
    assert "the 40 busiest of" in text
    assert re.search(r"replica 3 %", text)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [400, 1200])
def test_bars_of_memory_begin_at_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """However wide the label beside each is."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)
    held = (450_000_000, 99_000_000, 12_300_000, 5_000_000)

    def take(since: int) -> Sample:
        stats = {
            name: stats_of(resident_bytes=each) for name, each in zip(NAMES[:4], held, strict=True)
        }
        limits = {name: 2 * each for name, each in zip(NAMES[:4], held, strict=True)}
        return sample_of(next(times), stats, devices=NAMES[:4], memory_limit_bytes=limits)

    times = count(1.0)
    picture = tmp_path / "page.png"
    with serve_live(LiveView(take, lambda plan: scene_of(*NAMES[:4])), 0) as address:
        browse(
            address, tmp_path / "profile", "--hide-scrollbars", f"--window-size={width},1200",
            f"--screenshot={picture}",
        )  # fmt: skip
    red, green, blue = np.moveaxis(np.asarray(Image.open(picture).convert("RGB"), int), 2, 0)
    fills = (red - green > 40) & (blue - green > 20)  # of memory alone
    rows = np.flatnonzero(fills.any(axis=1))
    bars = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    begins = [int(fills[bar].any(axis=0).argmax()) for bar in bars]
    assert len(begins) == 4
    assert len(set(begins)) == 1


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
def test_a_page_tells_of_a_service_that_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence, and that counts began anew after it, are events; nobody else could tell."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)
    old, turns = replay(NAMES[:3]), count()

    def take(since: int) -> Sample:
        turn = next(turns)
        if turn in (3, 4):
            raise RunError("The service <ends>.")
        return old(since) if turn < 3 else sample_of(50.0, {})

    shown = LiveView(take, lambda plan: None)
    monkeypatch.setattr(shown._state, "_begin_anew", lambda last: None)  # as a new process has it
    with serve_live(shown, 0, "net") as address:
        text = browse(address, tmp_path, time_ms=5000)
    events = re.findall(r"</time>([^<]*)</li>", text)
    assert "news again: the service was started anew" in events
    assert events.count("no news: The service &lt;ends&gt;.") == 1


#: A page that holds another one, as wide as a phone, and writes down how wide that becomes.
_PHONE = """<!DOCTYPE html><iframe src="/" width="375" height="800"></iframe><script>
setTimeout(() => {
  const page = document.querySelector("iframe").contentDocument.documentElement;
  document.body.dataset.wide = page.scrollWidth;
}, 1500)</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
@pytest.mark.parametrize("path", ["", "live/"])
def test_pages_are_no_wider_than_a_phone(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and titles may be long: nothing has to be pushed aside to be read."""
    monkeypatch.setattr(view, "_FRESH_S", 0.0)
    monkeypatch.setattr(routes, "POLICY", "default-src 'self' 'unsafe-inline'")
    monkeypatch.setattr(routes, "write_live_page", lambda: (write_live_page()[0], "img-src *"))
    names = tuple(f"{'camera-at-the-gate-' * 3}{n}" for n in range(4))
    scene = scene_of(*names, title="net-" * 60)
    seen = LiveView(replay(names), lambda plan: scene)
    phone = Route(
        "/phone", lambda request: HTMLResponse(_PHONE.replace('src="/"', f'src="/{path}"'))
    )
    with serve_routes([*live_routes(seen), *served_routes({"n" * 64: seen}), phone], 0) as address:
        text = browse(address + "phone", tmp_path, time_ms=4000)
    found = re.search(r'data-wide="(\d+)"', text)
    assert found is not None
    assert int(found[1]) <= 375
