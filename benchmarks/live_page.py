"""What the live page costs the leader, and how often it has news: 32 devices, replayed totals.

Every device sends to every other one. A browser, where one is installed, or else a client that asks
as the page does, looks on for some seconds; the processor time of this process, which plays the
leader, is what its page costs. The totals are made beforehand and their decoding is counted, as a
leader gets them from its workers as messages.

    python -m benchmarks.live_page [--devices 32] [--seconds 20] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.samples import replay, scene_of

from benchmarks.harness import Row, at_least, at_most, make_parser, report, say
from partita.leader import Sample
from partita.live import LiveView, serve_live
from partita.worker.messages import decode_message, encode_message

MOST_SHARE, LEAST_HZ = 0.01, 2.0
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


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--devices", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    share, rate, viewer = measure(args.devices, args.seconds)
    say(f"{viewer} looked on for {args.seconds:g} s")
    rows: list[Row] = [
        at_most(
            f"live page of {args.devices} devices, of a core", "%", 100 * share, 100 * MOST_SHARE
        ),
        at_least(f"live page of {args.devices} devices, updates", "Hz", rate, LEAST_HZ),
    ]
    return report(rows, as_json=args.json, notes={"viewer": viewer})


if __name__ == "__main__":
    sys.exit(main())
