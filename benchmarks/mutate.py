"""Damaged inputs: what a worker, a listener and the readers of files do with them.

Each input is a good one with bytes or fields changed. It has to be taken, or refused with one line
of the project's own errors, within seconds and without growing memory. Damaged models are the
business of ``benchmarks.fuzz_models``. A piece of 2,000 takes one to three minutes:

    python -m benchmarks.mutate [KIND ...] [--count N] [--seed S] [--json]

Kinds are frames, calls, sockets, joins, files, bundles, commands, http, grpc and streams; without
one, each is tried.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random

from tests import (
    mutated_commands,
    mutated_grpc,
    mutated_http,
    mutated_inputs,
    mutated_streams,
)
from tests.mutations import Outcome

from benchmarks.harness import Row, at_most, make_parser, report, say

#: One input that takes so long is a hang: the process ends with the stacks of all threads.
HANG_S = 60.0
MOST_MEMORY_BYTES = 2e9
STEP = 50


KINDS = (
    "frames",
    "calls",
    "sockets",
    "joins",
    "files",
    "bundles",
    "commands",
    "http",
    "grpc",
    "streams",
)
#: Where each kind is tried, if not among the inputs.
PLACES = {
    "commands": mutated_commands,
    "http": mutated_http,
    "grpc": mutated_grpc,
    "streams": mutated_streams,
}


def try_kind(kind: str, count: int, seed: int) -> Outcome:
    """What becomes of ``count`` damaged inputs of a kind."""
    rng, outcome = Random(seed), Outcome()
    with tempfile.TemporaryDirectory() as folder:
        module = PLACES.get(kind, mutated_inputs)
        attempt = getattr(module, f"try_{kind}")
        if kind in ("bundles", "commands", "streams"):
            attempt = partial(attempt, folder=Path(folder))
        step = 1000 if kind in ("frames", "calls", "http", "grpc") else STEP
        for done in range(0, count, step):
            faulthandler.dump_traceback_later(HANG_S * step / STEP, exit=True)
            attempt(rng, min(step, count - done), outcome)
        faulthandler.cancel_dump_traceback_later()
    return outcome


def measure(kind: str, count: int, seed: int) -> Row:
    """How many damaged inputs of a kind end in neither of the ways that are right."""
    start_s = time.monotonic()
    outcome = try_kind(kind, count, seed)
    took_s = time.monotonic() - start_s
    for message, damaged in outcome.bare.items():
        say(f"bare: {message}\n      from {damaged[:200]!r}")
    say(f"{kind}: {outcome.taken} taken, {outcome.refused} refused; {took_s:.0f} s")
    bare = len(outcome.bare)
    return Row(f"{outcome.count} {kind}, bare errors", "", bare, None, None, "0", bare == 0)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--count", type=int, default=2000, help="damaged inputs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not set(given.kinds) <= set(KINDS):
        parser.error(f"kinds are {', '.join(KINDS)}")
    rows = [measure(kind, given.count, given.seed) for kind in given.kinds or KINDS]
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rows.append(at_most("memory", "MB", memory_bytes / 1e6, MOST_MEMORY_BYTES / 1e6))
    return report(rows, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
