"""A part of a plan that is served elsewhere: by another front."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.harness import whole_plan
from onnx import numpy_helper
from tests.cli.conftest import tiny_model
from tests.memory_lab import memory_lab
from tests.models import run_model
from tests.serve.fronts import Source, serving

import partita as pt
from partita.cluster import Cluster, Device
from partita.compile import Compiled, compile_plan
from partita.compile.export import export_plan
from partita.engine import EndpointEngine, OrtEngine, make_inputs
from partita.errors import ClusterError, EndpointError, RunError
from partita.graph import Graph, load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy
from partita.plan import Identity, Plan, Shard, Stage
from partita.serve import Front

PAIR = Cluster.of(["edge", "cloud"])


@dataclass(frozen=True)
class Parts:
    """A network cut in two, and where the second part is served."""

    graph: Graph
    plan: Plan
    compiled: Compiled
    url: str

    def load(self, device: str, url: str = "") -> Any:
        """A device's fragment, computed at a URL."""
        step = next(s for s in self.compiled.program.device(device).steps if hasattr(s, "reads"))
        info = self.compiled.program.fragments[step.fragment]
        blobs = {name: self.compiled.blobs[name] for name in info.blobs}
        packed = {name: np.asarray(blob).reshape(-1).view(np.uint8) for name, blob in blobs.items()}
        engine = EndpointEngine(url, OrtEngine()) if url else OrtEngine()
        return engine.load(self.compiled.graphs[info.hash], packed)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """A network on an edge and a cloud, whose part a front of its own serves."""
    graph = load_graph(tiny_model(), name="tiny")
    first, *rest = (layer.name for layer in graph.layers)
    stages = (
        Stage("first", (first,), "none", (Shard("edge"),)),
        Stage("rest", tuple(rest), "none", (Shard("cloud"),)),
    )
    plan = Plan(
        model=Identity(graph.name, graph.hash),
        cluster=Identity(PAIR.name, PAIR.hash),
        stages=stages,
        planner="hand",
    )
    folder = tmp_path_factory.mktemp("export") / "parts"
    export_plan(graph, plan, PAIR, folder)
    with serve_model(folder / "cloud.onnx") as url:
        yield Parts(graph, plan, compile_plan(graph, plan, PAIR), url)


@contextlib.contextmanager
def serve_model(file: Path) -> Iterator[str]:
    """The URL of a file's model, on a worker of its own."""
    graph = load_graph(file)
    far = Cluster.of(["far"])
    compiled = compile_plan(graph, whole_plan(graph, far, "far"), far)
    with memory_lab([Device("far")]) as lab:
        source = Source("cloud", lambda: deploy(compiled, lab.endpoint))
        with Front([source], queue=4) as front, serving(front) as url:
            yield f"{url}/v2/models/cloud"


def test_a_fragment_is_computed_where_it_is_served(parts: Parts) -> None:
    """What comes back is what ONNX Runtime makes of it here."""
    there, here = parts.load("cloud", parts.url), parts.load("cloud")
    assert (there.inputs, there.outputs) == (here.inputs, here.outputs)
    for seed in range(3):
        arrays = make_inputs(here.inputs, seed)
        for got, right in zip(there.run(arrays), here.run(arrays), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


def test_another_network_is_refused_when_it_is_loaded(parts: Parts, tmp_path: Path) -> None:
    """One of other shapes, and one of the same shapes with other weights."""
    export_plan(parts.graph, parts.plan, PAIR, tmp_path / "parts")
    with (
        serve_model(tmp_path / "parts" / "edge.onnx") as url,
        pytest.raises(RunError, match=r"serves i0 FP32.*; this device's part has i0 FP32"),
    ):
        parts.load("cloud", url)
    changed = scale_weights(tmp_path / "parts" / "cloud.onnx")
    with (
        serve_model(changed) as url,
        pytest.raises(RunError, match=r"serves another network: output 'o0' .* differs by"),
    ):
        parts.load("cloud", url)


def scale_weights(file: Path) -> Path:
    """A file beside with all weights a tenth larger."""
    model = onnx.load(file)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array * np.float32(1.1), tensor.name))
    changed = file.with_name("changed.onnx")
    onnx.save(model, changed)
    return changed


@pytest.mark.slow
def test_a_plan_whose_cloud_is_served_elsewhere_answers_like_the_whole(parts: Parts) -> None:
    """The worker of the device asks there; everything else is as ever."""
    cluster = Cluster.of([Device("edge"), Device("cloud", endpoint=parts.url)])
    compiled = compile_plan(parts.graph, parts.plan, cluster)
    array = np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)
    with (
        start_lab(cluster, LabOptions(shaped=False)) as lab,
        deploy(compiled, lab.endpoint) as session,
    ):
        (got,) = session.run([{"x": array}])
        assert session.infos["cloud"].providers == (parts.url,)
    np.testing.assert_allclose(got["y"], run_model(tiny_model(), {"x": array})[0], atol=1e-5)


@pytest.mark.slow
def test_an_endpoint_that_is_lost_is_done_without(parts: Parts, tmp_path: Path) -> None:
    """Under way, and when a plan is deployed while it is gone: every request is answered."""
    export_plan(parts.graph, parts.plan, PAIR, tmp_path / "parts")
    array = np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)
    right = run_model(tiny_model(), {"x": array})[0]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(serve_model(tmp_path / "parts" / "cloud.onnx"))
        cluster = Cluster.of(
            [
                Device("edge", kind="raspberry-pi-4"),
                Device("cloud", kind="raspberry-pi-4", endpoint=url),
            ]
        )
        with pt.deploy(parts.plan, parts.graph, cluster, recover=True) as session:
            np.testing.assert_allclose(session.run([{"x": array}])[0]["y"], right, atol=1e-5)
            stack.close()
            for got in session.run([{"x": array}] * 3):
                np.testing.assert_allclose(got["y"], right, atol=1e-5)
            assert session.lost.devices == ("cloud",)
            assert "does not answer" in session.changes[0].why
    with pt.deploy(parts.plan, parts.graph, cluster, recover=True) as session:
        np.testing.assert_allclose(session.run([{"x": array}])[0]["y"], right, atol=1e-5)
        assert session.lost.devices == ("cloud",)


class Faulty(BaseHTTPRequestHandler):
    """A server that answers what it is told."""

    protocol_version = "HTTP/1.1"
    status, body = 200, b"{}"

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"{}", "describes no model"),
        (200, b"\xff", "describes no model"),
        (200, b'{"inputs": 3, "outputs": []}', "describes no model"),
        (404, b'{"error": "no such model"}', "answers 404: .*no such model"),
    ],
)
def test_an_endpoint_that_is_none_is_said_in_one_line(
    parts: Parts, status: int, body: bytes, told: str
) -> None:
    """Whatever is there instead."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Faulty,), {})) as server:
        server.RequestHandlerClass.status, server.RequestHandlerClass.body = status, body
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(RunError, match=told) as caught:
            parts.load("cloud", f"http://127.0.0.1:{server.server_address[1]}/v2/models/cloud")
        server.shutdown()
    assert "\n" not in caught.value.message


def test_an_endpoint_that_is_not_there_is_said_in_one_line(parts: Parts) -> None:
    """And so is what is no URL of a model."""
    with pytest.raises(EndpointError, match=r"does not answer: .*refused"):
        parts.load("cloud", "http://127.0.0.1:9/v2/models/cloud")
    with pytest.raises(ClusterError, match="allowed: http://HOST:PORT/v2/models/NAME"):
        parts.load("cloud", "127.0.0.1:9")
