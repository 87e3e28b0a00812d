"""What looking on costs: the leader of many devices, and requests that are under way.

The page of 32 devices that all send to each other is looked at for some seconds by a browser, where
one is installed, or else by a client that asks as the page does; the processor time of this
process, which plays the leader, is what its page costs. Totals of workers are replayed: they are
made beforehand, and their decoding is counted, as a leader gets them as messages.

Then MobileNet-v2 runs on the emulated lab, divided by rows over four devices that are slow enough
to leave a core free, with and without a viewer who asks as often as the page, in turns: what a
request takes, and the processor time of a sample of real workers.

    python -m benchmarks.live_page [--devices 32] [--seconds 20] [--rounds 9] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.samples import replay, scene_of

from benchmarks.harness import (
    Row,
    at_least,
    at_most,
    draw_inputs,
    find_model,
    make_parser,
    report,
    say,
    shown,
    take_turns,
)
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.cost import CostModel
from partita.graph import load_graph
from partita.lab import start_lab
from partita.leader import Sample, deploy
from partita.live import LiveView, serve_live
from partita.planners import find_plan
from partita.profile import MeasureOptions, measure_profile
from partita.worker.messages import decode_message, encode_message

MOST_SHARE, LEAST_HZ = 0.01, 2.0
#: What requests may take longer while somebody looks on: what a busy machine varies by.
MOST_SLOWER = 1.02
MODEL, SLOW_DOWN, REQUESTS = "mobilenet_v2", 8.0, 20
#: The page's own pause between an answer and the next question.
PAUSE_S = 0.44
#: Samples that are replayed; as many are made beforehand.
SAMPLES = 400


class Replay:
    """Samples as messages, decoded one by one; counts them."""

    def __init__(self, names: tuple[str, ...], count: int) -> None:
        take = replay(names)
        self._bodies = itertools.cycle([encode_message(take(0)) for _ in range(count)])
        self.taken = 0

    def take(self, since: int) -> Sample:
        self.taken += 1
        return decode_message(next(self._bodies), Sample)


@contextmanager
def browse(address: str) -> Iterator[str]:
    """Look on until the end of the context; yield with what."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        words = [sys.executable, "-c", CLIENT, address]
        folder = None
    else:
        folder = tempfile.TemporaryDirectory()
        words = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
        ]
        words += [f"--user-data-dir={folder.name}", address]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield "a client" if browser is None else "chromium"
    finally:
        process.terminate()
        process.wait()
        if folder is not None:
            folder.cleanup()


CLIENT = f"""
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1] + "live.json").read()
    time.sleep({PAUSE_S})
"""


def measure(devices: int, seconds: float) -> tuple[float, float, str]:
    """Return the share of a core, the samples per second, and who looked on."""
    names = tuple(f"device-{n}" for n in range(devices))
    played, scene = Replay(names, SAMPLES), scene_of(*names)
    view = LiveView(played.take, lambda plan: scene)
    with serve_live(view, 0) as address:
        urllib.request.urlopen(address + "live.json").read()
        with browse(address) as viewer:
            time.sleep(5.0)  # a browser takes some seconds to start
            before, began_s, used_s = played.taken, time.monotonic(), time.process_time()
            time.sleep(seconds)
            used_s, took_s = time.process_time() - used_s, time.monotonic() - began_s
            return used_s / took_s, (played.taken - before) / took_s, viewer


def measure_run(rounds: int) -> tuple[dict[str, float], float]:
    """Return the seconds of some requests with and without a viewer, and those of a sample.

    The latter are processor time of the leader.
    """
    graph = load_graph(find_model(MODEL), name=MODEL)
    cluster = Cluster.of([Device(f"d{n}", slow_down=SLOW_DOWN) for n in range(4)])
    cost = CostModel(graph, cluster, profiles=measure_profile(graph, MeasureOptions(repeats=3)))
    plan = find_plan(cost, planner="equal_rows").plan
    inputs = [draw_inputs(graph)] * REQUESTS
    with (
        start_lab(cluster) as lab,
        deploy(compile_plan(graph, plan, cluster), lab.endpoint) as session,
    ):
        view = LiveView(session.sample, lambda plan_hash: None)

        def run_seen() -> None:
            over = threading.Event()
            asking = threading.Thread(target=look_on, args=(view, over))
            asking.start()
            session.run(inputs)
            over.set()
            asking.join()

        calls = {"seen": run_seen, "alone": lambda: session.run(inputs)}
        found = take_turns(calls, rounds=rounds)
        used_s = time.process_time()
        for _ in range(SAMPLES):
            session.sample(2**40)
        return found, (time.process_time() - used_s) / SAMPLES


def look_on(view: LiveView, over: threading.Event) -> None:
    while not over.wait(PAUSE_S):
        view.snapshot()


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--devices", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    share, rate, viewer = measure(args.devices, args.seconds)
    say(f"{viewer} looked on for {args.seconds:g} s")
    rows: list[Row] = [
        at_most(
            f"live page of {args.devices} devices, of a core", "%", 100 * share, 100 * MOST_SHARE
        ),
        at_least(f"live page of {args.devices} devices, updates", "Hz", rate, LEAST_HZ),
    ]
    found, sample_s = measure_run(args.rounds)
    ratio = found["seen"] / found["alone"]
    what = f"{REQUESTS} requests beside a viewer"
    met = ratio <= MOST_SLOWER
    rows += [
        Row(what, "s", found["seen"], found["alone"], ratio, f"<= {MOST_SLOWER}x", met),
        shown("a sample of 4 workers, of the leader's time", "ms", 1e3 * sample_s),
    ]
    return report(rows, as_json=args.json, notes={"viewer": viewer})


if __name__ == "__main__":
    sys.exit(main())
