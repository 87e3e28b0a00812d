"""One local worker against bare ONNX Runtime with the same threads.

The whole network runs as one fragment in one worker process; what is timed is leader, fabric,
worker and back. The peer is ``InferenceSession.run`` in this process, of the file as it is and of
the normalised network; the faster of both counts. All run in turns.

    python -m benchmarks.overhead [--models NAME...] [--threads 1 2] [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.harness import (
    Row,
    draw_inputs,
    find_model,
    make_parser,
    open_session,
    report,
    say,
    take_turns,
    whole_plan,
)
from partita.cluster import Cluster, Device
from partita.compile import compile_plan
from partita.graph import load_graph
from partita.lab import LabOptions, start_lab
from partita.leader import deploy

MODELS = ("resnet50", "light_densenet121", "vgg16", "mobilenet_v2", "light_squeezenet")
#: From this many seconds on, a ratio is asked for; below, a difference.
LONG_S = 0.050
MOST_RATIO, MOST_DIFFERENCE_S = 1.05, 0.001


def measure(name: str, threads: int, rounds: int) -> Row:
    model = find_model(name)
    graph = load_graph(model, name=name)
    cluster = Cluster.of([Device("worker", memory_bytes=8_000_000_000, threads=threads)])
    inputs = draw_inputs(graph)
    as_it_is, normalised = open_session(model, threads), open_session(graph.to_model(), threads)
    compiled = compile_plan(graph, whole_plan(graph, cluster, "worker"), cluster)
    options = LabOptions(threads=threads, shaped=False)
    with start_lab(cluster, options) as lab, deploy(compiled, lab.endpoint) as session:
        calls = {
            "ours": lambda: session.run([inputs], in_flight=1),
            "file": lambda: as_it_is(inputs),
            "normalised": lambda: normalised(inputs),
        }
        found = take_turns(calls, rounds=rounds)
    say(f"{name}, {threads} threads: { ({k: round(v * 1e3, 2) for k, v in found.items()}) } ms")
    return judge(f"{name}, {threads} thread{'s' if threads > 1 else ''}", found)


def judge(case: str, found: dict[str, float]) -> Row:
    """Return the row: ours against the faster of the two peers."""
    ours, peer = found["ours"], min(found["file"], found["normalised"])
    if peer >= LONG_S:
        met, target = ours <= MOST_RATIO * peer, f"<= {MOST_RATIO:.2f}x"
    else:
        met, target = ours - peer <= MOST_DIFFERENCE_S, f"<= +{MOST_DIFFERENCE_S * 1e3:g} ms"
    return Row(case, "ms", ours * 1e3, peer * 1e3, ours / peer, target, met)


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    rows = [measure(name, n, args.rounds) for name in args.models for n in args.threads]
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
