"""A stream against ``Session.run`` of the same inputs, decoded beforehand.

The whole network runs in one worker process with one thread; a folder of JPEG pictures and a video
of the same frames are streamed. Decoding and preparing go on beside the worker: what is lost is
what they take from it. All run in turns; the median of the ratios of neighbours counts.

    python -m benchmarks.streams [--model mobilenet_v2] [--images 200] [--rounds 5] [--json]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import msgspec
import numpy as np
from PIL import Image

from benchmarks.harness import Row, find_model, make_parser, report, say, whole_plan
from partita import StreamOptions, stream
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.demo.video import write_frames
from partita.graph import load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import Session, deploy
from partita.quantisation.pictures import Pixels
from partita.streams import Preparer, find_source

#: Height and width of the pictures: what cameras send, before it is made smaller.
SIZE = (480, 640)
IN_FLIGHT = 3
LEAST_RATIO = 0.9


def draw_frames(count: int) -> list[Pixels]:
    """Return smooth pictures that differ, as photos are smooth."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 255, (count, 12, 16, 3), np.uint8)
    size = SIZE[1], SIZE[0]
    return [np.asarray(Image.fromarray(one).resize(size)) for one in small]


def measure(session: Session, source: Path, rounds: int) -> Row:
    """Return the row of one source: images per second, and those of ``Session.run``."""
    preparer = Preparer(session.program.inputs, None)
    feeds = [preparer.prepare(item)[1] for item in find_source(str(source)).items((), Event())]

    def run_decoded() -> None:
        session.run(feeds)

    def run_stream() -> None:
        answered = sum(1 for _ in stream(session, source, StreamOptions()))
        assert answered == len(feeds)

    rates: dict[Callable[[], None], list[float]] = {run_decoded: [], run_stream: []}
    for turn in range(rounds + 1):
        for call, found in rates.items():
            start_s = time.perf_counter()
            call()
            if turn:  # the first warms up
                found.append(len(feeds) / (time.perf_counter() - start_s))
    pairs = zip(rates[run_stream], rates[run_decoded], strict=True)
    ratio = statistics.median(ours / peer for ours, peer in pairs)
    ours, peer = (statistics.median(rates[call]) for call in (run_stream, run_decoded))
    say(f"{source.name}: {ours:.1f} and {peer:.1f} images/s")
    what = f"stream of {'video' if source.suffix else 'pictures'}, {len(feeds)} images"
    return Row(what, "1/s", ours, peer, ratio, f">= {LEAST_RATIO:g}x", ratio >= LEAST_RATIO)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    graph = load_graph(find_model(given.model), name=given.model)
    cluster = Cluster.of([Device("worker", memory_bytes=8_000_000_000, threads=1)])
    plan = msgspec.structs.replace(whole_plan(graph, cluster, "worker"), in_flight=IN_FLIGHT)
    options = LabOptions(threads=1, shaped=False)
    with tempfile.TemporaryDirectory() as folder:
        pictures, video = Path(folder, "pictures"), Path(folder, "video.mp4")
        pictures.mkdir()
        frames = draw_frames(given.images)
        for number, pixels in enumerate(frames):
            Image.fromarray(pixels).save(pictures / f"{number:05d}.jpg", quality=90)
        write_frames(video, frames)
        with (
            start_lab(cluster, options) as lab,
            deploy(compile_plan(graph, plan, cluster), lab.endpoint) as session,
        ):
            rows = [measure(session, source, given.rounds) for source in (pictures, video)]
    return report(rows, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
