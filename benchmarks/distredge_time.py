"""What learning brings DistrEdge in equal time: the planners and their controls against AOFL.

VGG-16 on four boards with links of their own, half precision, simulated. The control tries
``--episodes`` plans with a learner that never learns; all others get the seconds that it took, on
the same seed. Once as the planners begin, with plans of simple rules and changes of the best plan,
and once from nothing.

    python -m benchmarks.distredge_time [--seeds 0-4] [--episodes 4000] [--json]
"""

from __future__ import annotations

import sys
import time
from itertools import permutations
from statistics import mean

from benchmarks.harness import Row, make_parser, report, say
from partita.cli.actions.reproduce import parse_seeds
from partita.cluster import Cluster, load_cluster
from partita.cost import CostModel, CostOptions
from partita.graph import load_graph
from partita.planners import PlanOptions, find_plan
from partita.zoo import build_model

BOARDS = (("xavier", 50), ("tx2", 100), ("nano", 200), ("nano", 300))
NOTHING = {"warm": "false", "perturb": "0"}


def make_cluster() -> Cluster:
    """The boards, and a telephone that asks: a link has the lower rate of its ends, hers is any."""
    rates = {f"{kind}-{rate}": rate for kind, rate in BOARDS} | {"phone": 1000}
    devices: list[dict[str, object]] = [
        {"name": f"{kind}-{rate}", "kind": f"jetson-{kind}"} for kind, rate in BOARDS
    ]
    links = [
        {
            "from": a,
            "to": b,
            "bandwidth": f"{min(rates[a], rates[b])} Mbit/s",
            "latency": "1 ms",
            "per_message": "1 ms",
        }
        for a, b in permutations(rates, 2)
    ]
    return load_cluster(
        {
            "cluster": {"name": "boards", "requester": "phone"},
            "device": [*devices, {"name": "phone", "kind": "phone", "computes": False}],
            "link": links,
        }
    )


def run(cost: CostModel, planner: str, seed: int, settings: dict[str, str]) -> tuple[float, float]:
    """The latency that a planner reaches, and the seconds it took."""
    method = {f"{planner}.{name}": value for name, value in settings.items()}
    start_s = time.monotonic()
    options = PlanOptions(seed=seed, compress="float16", method=method)
    latency_s = find_plan(cost, planner=planner, options=options).latency_s
    return latency_s, time.monotonic() - start_s


def compare(cost: CostModel, seed: int, episodes: int) -> dict[str, float]:
    """How many times as fast as AOFL each way is, on one seed."""
    aofl_s, _ = run(cost, "aofl", 0, {})
    ratios = {}
    for start, more in (("", {}), (" from nothing", NOTHING)):
        control = {"learn": "false", "episodes": str(episodes), **more}
        control_s, took_s = run(cost, "distredge", seed, control)
        say(f"seed {seed}{start}: {episodes} episodes of the control in {took_s:.1f} s")
        ratios[f"control{start}"] = aofl_s / control_s
        bounded = {"seconds": f"{took_s:.3f}", "episodes": "1000000"}
        ratios[f"repaired{start}"] = aofl_s / run(cost, "distredge", seed, bounded | more)[0]
        if not more:
            published_s, _ = run(cost, "distredge_published", seed, bounded)
            ratios["published"] = aofl_s / published_s
    return ratios


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--episodes", type=int, default=4000)
    args = parser.parse_args()
    graph = load_graph(build_model("vgg16"), name="vgg16")
    cost = CostModel(graph, make_cluster(), options=CostOptions(precision="float16"))
    seeds = parse_seeds(args.seeds)
    results = [compare(cost, seed, args.episodes) for seed in seeds]
    rows = []
    for name in results[0]:
        values = [result[name] for result in results]
        spread = f"{name}: times as fast as AOFL, least and most of {len(seeds)} seeds"
        rows.append(Row(spread, "x", min(values), max(values), mean(values), "", None))
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
