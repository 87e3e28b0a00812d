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
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.live.samples import replay, scene_of

from partita.errors import InputError, RunError
from partita.leader import Sample
from partita.live import LiveView, serve_live, view
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
        listed = get(address + "live/")[0].decode()
        assert re.findall(r'href="([^"]*)"', listed) == ["cat/", "dog/"]
        assert b"<script>" in get(address + "live/cat/")[0]
        assert len(json.loads(get(address + "live/dog/live.json")[0])["devices"]) == 3
        body, _ = get(address + "metrics")
    assert body.count(b"# TYPE partita_requests_total") == 1
    found = read_metrics(body)
    for name in views:
        assert ("partita_requests_total", frozenset([("model", name)])) in found


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


def browse(address: str, folder: Path) -> str:
    """The document as the browser has it after two seconds of its own time."""
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    words += [f"--user-data-dir={folder}", "--dump-dom", address]
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
