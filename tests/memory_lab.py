"""All devices in one process."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from partita.cluster import Device, Link
from partita.engine import Engine, OrtEngine, Slowdown, SlowedEngine
from partita.fabric import Endpoint, MemoryFabric, ShapedEndpoint
from partita.worker import Store, Worker, WorkerParts


@dataclass
class MemoryLab:
    """Workers as threads on one fabric.

    Attributes:
        endpoint: A leader's endpoint.
        workers: Per device, its worker.
        start: Starts the worker of a device, also of one whose endpoint was killed.
    """

    fabric: MemoryFabric
    endpoint: Endpoint
    workers: dict[str, Worker] = field(default_factory=dict)
    start: Callable[[Device], None] = lambda device: None


@contextlib.contextmanager
def memory_lab(
    devices: Iterable[Device],
    *,
    store: Path | None = None,
    engine: Engine | None = None,
    links: Iterable[Link] | None = None,
) -> Iterator[MemoryLab]:
    """Run a worker per device in threads of this process.

    Args:
        devices: Their slow-downs count.
        store: Directory of content; a temporary one by default.
        engine: What computes; ONNX Runtime with the device's threads by default.
        links: Emulated in real time, with their traces; None shapes nothing.
    """
    fabric = MemoryFabric()
    with contextlib.ExitStack() as stack:
        root = store or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = MemoryLab(fabric, fabric.endpoint("leader"))
        stack.callback(lab.endpoint.close)

        def start(device: Device) -> None:
            endpoint: Endpoint = fabric.endpoint(device.name)
            if links is not None:
                endpoint = ShapedEndpoint(endpoint, _shapes(device.name, links))
            stack.callback(endpoint.close)
            worker = Worker(endpoint, _parts(device, root, engine))
            stack.callback(worker.close)
            worker.start()
            lab.workers[device.name] = worker

        lab.start = start
        for device in devices:
            start(device)
        yield lab


def _shapes(source: str, links: Iterable[Link]) -> dict[str, Link]:
    return {link.target: replace(link, medium=None) for link in links if link.source == source}


def _parts(device: Device, root: Path, engine: Engine | None) -> WorkerParts:
    slow_down = Slowdown(device.slow_down)
    inner = engine or OrtEngine(device.threads)
    return WorkerParts(
        engine=SlowedEngine(inner, slow_down) if device.slow_down > 1 else inner,
        store=Store(root, owner=device.name),
        slow_down=slow_down,
        memory_limit_bytes=device.memory_bytes,
        threads=device.threads,
    )
