"""Damaged inputs: what a worker, a listener and the readers of files do with them.

Each input is a good one with bytes or fields changed. It has to be taken, or refused with one line
of the project's own errors, within seconds and without growing memory. Damaged models are the
business of ``benchmarks.backend``. A piece of 2,000 takes one to three minutes:

    python -m benchmarks.mutate frames|calls|sockets|files|bundles [--count N] [--seed S] [--json]
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

from tests import mutated_inputs
from tests.mutations import Outcome

from benchmarks.harness import make_parser, say

#: One input that takes so long is a hang: the process ends with the stacks of all threads.
HANG_S = 60.0
MOST_MEMORY_BYTES = 2e9
STEP = 50


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("kind", choices=("frames", "calls", "sockets", "files", "bundles"))
    parser.add_argument("--count", type=int, default=2000, help="damaged inputs")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, outcome = Random(given.seed), Outcome()
    with tempfile.TemporaryDirectory() as folder:
        attempt = getattr(mutated_inputs, f"try_{given.kind}")
        if given.kind == "bundles":
            attempt = partial(attempt, folder=Path(folder))
        start_s = time.monotonic()
        step = 1000 if given.kind in ("frames", "calls") else STEP
        for done in range(0, given.count, step):
            faulthandler.dump_traceback_later(HANG_S * step / STEP, exit=True)
            attempt(rng, min(step, given.count - done), outcome)
        faulthandler.cancel_dump_traceback_later()
        took_s = time.monotonic() - start_s
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for message, damaged in outcome.bare.items():
        say(f"bare: {message}\n      from {damaged[:200]!r}")
    print(
        f"{given.kind}: {outcome.count} damaged inputs, {outcome.taken} taken, {outcome.refused} "
        f"refused, {len(outcome.bare)} bare; {took_s:.0f} s, {memory_bytes / 1e6:.0f} MB at most"
    )
    return 1 if outcome.bare or memory_bytes > MOST_MEMORY_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
