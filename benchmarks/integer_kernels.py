"""8-bit networks on the engine's integer kernels against their own floats, on one core.

Both run as a worker runs them: compiled for one device, a fragment in Partita's engine. Their
quantised form is rounded to 8 bits by samples drawn from a seed, scales per channel, so that sums
are exact. The same on float kernels (``fake``) tells whether the integer ones answer what was asked
of them. Prints one table; ``--json`` prints the same as JSON.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.harness import (
    Row,
    draw_inputs,
    find_model,
    make_parser,
    report,
    say,
    take_turns,
    whole_plan,
)
from partita.cluster import Cluster
from partita.compile import Compiled, compile_plan
from partita.engine import OrtEngine
from partita.graph import Graph, load_graph
from partita.graph.quantised import with_kernels
from partita.quantisation import CodeOptions, choose_bits, collect_ranges, quantize
from partita.regions import Array

MODELS = ("mobilenet_v2", "resnet50")
SAMPLES, ANSWERS, ROUNDS = 8, 20, 25
#: How much faster than floats the first of the models is to be.
WANTED = 1.5
_DEVICE = "here"

Answer = Callable[[dict[str, Array]], Array]


def quantise(graph: Graph) -> Graph:
    """Return the graph in 8 bits, ranges from drawn samples."""
    ranges = collect_ranges(graph, [draw_inputs(graph, seed) for seed in range(SAMPLES)])
    return quantize(graph, choose_bits(graph, ranges, 8, 8, CodeOptions(exact_sums=True)))


def compile_whole(graph: Graph) -> Compiled:
    """Return the program of one device and one fragment."""
    cluster = Cluster.of([_DEVICE])
    return compile_plan(graph, whole_plan(graph, cluster, _DEVICE), cluster)


def open_whole(graph: Graph, compiled: Compiled) -> Answer:
    """Return what answers a request as a worker does, with one thread."""
    (info,) = compiled.program.fragments
    blobs = {name: compiled.blobs[name] for name in info.blobs}
    runner = OrtEngine(threads=1).load(compiled.graphs[info.hash], blobs)
    return lambda feeds: runner.run([feeds[name] for name in graph.inputs])[0]


def compare(name: str, wanted: float | None) -> list[Row]:
    """Return the rows of one model."""
    say(name)
    graph = load_graph(find_model(name), name=name)
    fake = quantise(graph)
    graphs = {"float": graph, "fake": fake, "integer": with_kernels(fake, integer=True)}
    compiled = {way: compile_whole(one) for way, one in graphs.items()}
    answers = {way: open_whole(one, compiled[way]) for way, one in graphs.items()}
    feeds = draw_inputs(graph, 100)
    seconds = take_turns({way: lambda a=a: a(feeds) for way, a in answers.items()}, rounds=ROUNDS)  # type: ignore[misc]
    gain = seconds["float"] / seconds["integer"]
    met, target = (None, "") if wanted is None else (gain >= wanted, f">= {wanted:g}x")
    ours = 1e3 * seconds["integer"]
    case = f"{name}: integer kernels, floats"
    rows = [Row(case, "ms", ours, 1e3 * seconds["float"], gain, target, met)]
    peer = 1e3 * seconds["fake"]
    case = f"{name}: integer kernels, 8 bits on floats"
    rows.append(Row(case, "ms", ours, peer, peer / ours, "", None))
    sizes = {way: one.program.fragments[0].stored_bytes / 1e6 for way, one in compiled.items()}
    stored, plain = sizes["integer"], sizes["float"]
    rows.append(Row(f"{name}: weights stored", "MB", stored, plain, plain / stored, "", None))
    wishes = [draw_inputs(graph, 200 + seed) for seed in range(ANSWERS)]
    firsts = {way: [int(one(w).argmax()) for w in wishes] for way, one in answers.items()}
    for way, words in (("fake", "8 bits on floats"), ("float", "floats")):
        same = 100 * float(np.mean(np.equal(firsts["integer"], firsts[way])))
        rows.append(Row(f"{name}: first answers as {words}", "%", same, None, None, "", None))
    return rows


def main() -> int:
    """Run the benchmark."""
    args = make_parser(__doc__).parse_args()
    rows = [row for k, name in enumerate(MODELS) for row in compare(name, None if k else WANTED)]
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    raise SystemExit(main())
