"""Fronts as processes of their own, and flags that cannot be."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tritonclient import http as triton

from partita.cluster import dump_cluster, load_cluster
from partita.lab import start_lab
from tests.cli.conftest import Ask, tiny_model
from tests.models import make_model, run_model

#: No front takes longer to start, or to end.
PATIENCE_S = 60.0
SERVE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
from partita.cli import start
sys.exit(start())
"""


@dataclass
class Service:
    """A front that runs: its process, and what it said once it answered."""

    process: subprocess.Popen[str]
    reply: dict[str, Any]

    def ask(self, name: str, array: Any, output: str = "y") -> Any:
        """The answer to one input ``x``."""
        sent = triton.InferInput("x", list(array.shape), "FP32")
        sent.set_data_from_numpy(array)
        place = self.reply["url"].removeprefix("http://")
        with triton.InferenceServerClient(place, network_timeout=PATIENCE_S) as client:
            return client.infer(name, [sent]).as_numpy(output)

    def end(self) -> tuple[int, str]:
        """The exit code after SIGTERM, and what it said on stderr."""
        self.process.send_signal(signal.SIGTERM)
        _, told = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, told


@contextlib.contextmanager
def serve(*words: str) -> Iterator[Service]:
    """A front on a port of the system's choice; it may have ended by the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", *words, "--listen", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Service(process, json.loads(process.stdout.readline() or "{}"))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextlib.contextmanager
def running_lab(file: Path) -> Iterator[str]:
    """Workers that other processes use: the name of a cluster file that says where they are."""
    cluster = load_cluster(file)
    with start_lab(cluster) as lab:
        placed = tuple(replace(d, address=lab.addresses[d.name]) for d in cluster.devices)
        here = replace(cluster, devices=placed, name=lab.plan.id)
        running = file.with_name("running.toml")
        running.write_text(dump_cluster(here), encoding="utf-8")
        yield running.name


def draw(shape: Sequence[int] = (1, 3, 16, 16)) -> Any:
    """An input."""
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def heavy_model() -> onnx.ModelProto:
    """A dense layer of 10 MB."""
    weight = np.random.default_rng(0).standard_normal((2000, 1250), np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], name="dense")]
    return make_model(nodes, {"x": [1, 2000]}, ["y"], {"w": weight})


@pytest.mark.slow
def test_two_fronts_share_a_fleet_and_its_memory(ask: Ask, folder: Path) -> None:
    """Both answer at the same time; what does not fit beside the others is refused, harmlessly."""
    array, wide = draw(), draw((1, 2000))
    expected = run_model(tiny_model(), {"x": array})[0]
    onnx.save(heavy_model(), folder / "heavy.onnx")
    text = (folder / "pair.toml").read_text(encoding="utf-8")
    (folder / "pair.toml").write_text(text.replace("1 GB", "24 MB"), encoding="utf-8")
    with running_lab(folder / "pair.toml") as cluster:
        heavy = [
            "heavy.onnx",
            "--cluster",
            cluster,
            "--planner",
            "single",
            "--objective",
            "latency",
        ]
        with (
            serve("p.json", "again=p.json", "--cluster", cluster) as first,
            serve(*heavy) as second,
        ):
            assert first.reply["models"] == ["m", "again"]
            for name in ("m", "again"):
                np.testing.assert_allclose(first.ask(name, array), expected, atol=1e-5)
            np.testing.assert_allclose(
                second.ask("heavy", wide), run_model(heavy_model(), {"x": wide})[0], rtol=1e-4
            )
            with serve("twin=heavy.onnx", *heavy) as third:
                assert third.process.wait(PATIENCE_S) == 4
                assert third.reply["error"]["kind"] == "run"
                told = third.reply["error"]["message"]
                assert "refuses the plan: weights need 10 MB beside 20" in told
            np.testing.assert_allclose(first.ask("m", array), expected, atol=1e-5)
            for front in (first, second):
                code, told = front.end()
                assert code == 0
                assert "Traceback" not in told


@pytest.mark.slow
def test_a_model_is_planned_for_and_served_on_emulated_devices(folder: Path) -> None:
    """One command from an ONNX file to answers; a loss is survived where that was asked for."""
    array = draw()
    words = ["m.onnx", "--cluster", "pair.toml", "--planner", "equal_rows", "--recover"]
    with serve(*words) as front:
        assert front.reply["models"] == ["m"]
        expected = run_model(tiny_model(), {"x": array})[0]
        np.testing.assert_allclose(front.ask("m", array), expected, atol=1e-5)
        assert front.end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_is_ended_is_no_failure_and_probes_are_answered_before(
    folder: Path, number: signal.Signals
) -> None:
    """Workers that are not there are waited for; both signals end that with exit code 0."""
    text = (folder / "pair.toml").read_text(encoding="utf-8")
    for port in (9, 11):
        text = text.replace("[[device]]\nn", f'[[device]]\naddress = "tcp/127.0.0.1:{port}"\nn', 1)
    (folder / "nowhere.toml").write_text(text, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    words = ("serve", "p.json", "--cluster", "nowhere.toml", "--listen", place)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, *words], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        assert process.stderr.readline() == "connecting to the workers\n"
        with urllib.request.urlopen(f"http://{place}/v2/health/live") as answer:
            assert answer.status == 200
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told) == (0, "ended before all models were there\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.json"], "'missing.json' cannot be used: No such file"),
        (["m.onnx"], "'m.onnx' is a model, not a plan: --cluster says what to plan for"),
        (["pair.toml"], "'pair.toml' is a cluster file, as which --cluster takes it"),
        (["=p.json"], "'=p.json' gives no name; allowed: FILE, or NAME=FILE"),
        (["p.json", "--objective", "latency"], "--objective is for models: a plan file has its"),
        (["p.json", "--in-flight", "3"], "--in-flight is for models"),
        (["p.json", "p.json"], "Name 'm' is of two models. Give one as NAME=FILE."),
        (["a b=p.json"], "Name 'a b' is not allowed: 1 to 64 letters"),
        (["p.json", "q=p.json", "--profile", "x.json"], "--profile is of one model"),
        (["p.json", "q=p.json", "--shape", "x=1x3x16x16"], "--shape is of one model"),
        (["p.json", "--hold", "3"], "--hold needs --adapt"),
        (["p.json", "--budget", "3"], "--budget needs --adapt or --recover"),
        (["p.json", "--listen", "nowhere"], "--listen 'nowhere' is no address; allowed: HOST:PORT"),
        (["p.json", "--queue", "-1"], "got -1, allowed: 0 to 100000"),
        (["p.json", "--planner", "none", "--recover"], "none"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(ask: Ask, words: list[str], told: str) -> None:
    """Before any worker is asked."""
    answer = ask("serve", "--listen", "127.0.0.1:0", *words)
    assert answer.code == 2
    assert told in answer.message


def test_a_port_that_is_taken_is_said_before_anything_is_deployed(ask: Ask) -> None:
    """In one line that names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = ask("serve", "p.json", "--listen", place)
    assert answer.code == 2
    assert f"Address '{place}' cannot be listened at: Address already in use." in answer.message


def look(url: str) -> Any:
    """What the page of the model ``m`` shows."""
    with urllib.request.urlopen(f"{url}/live/m/live.json") as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_service_is_looked_at_while_it_answers(folder: Path) -> None:
    """Its page and metrics are those of the session behind the model, also of a new version."""
    with serve("m=p.json", "--page") as service:
        url = service.reply["url"]
        assert service.reply["page"] == f"{url}/live/"
        for answers in (1, 2):
            service.ask("m", draw())
            now = look(url)
            while now["answers"] < answers:  # snapshots are news twice a second
                now = look(url)
            assert {device["name"] for device in now["devices"]} == {"a", "b"}
        order = urllib.request.Request(f"{url}/v2/repository/models/m/load", b"", method="POST")
        urllib.request.urlopen(order).close()
        service.ask("m", draw())
        while look(url)["answers"] != 3:  # with those of the version before
            pass
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            text = answer.read().decode()
        assert 'partita_requests_total{model="m"} 3.0' in text
        code, _ = service.end()
        assert code == 0
