"""Plans that may hold more than the devices' memory, as the command tells them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from partita.cli.actions.run import Ran, add_unswapped
from partita.cli.flags import PlanFiles
from partita.cli.output import Reply
from partita.cli.sources import read_plan
from partita.cluster import load_cluster
from partita.cost import CostModel
from partita.simulation import predict
from tests.cli.conftest import Ask
from tests.surface.replies import CLUSTER


def test_swapping_is_asked_for_and_told(ask: Ask, folder: Path) -> None:
    """Devices of 4 kB hold the network only with ``--swap``, which says what that costs."""
    tight = CLUSTER.replace('"1 GB"', '"4 kB"')
    (folder / "tight.toml").write_text(tight.replace("threads = 1", 'threads = 1\nswap = "1 MB/s"'))
    words = ("plan", "m.onnx", "--planner", "single", "--cluster", "tight.toml")
    assert "fit" in ask(*words).message
    answer = ask(*words, "--swap", "--json")
    (size,) = answer.reply["swapped_bytes"].values()
    assert answer.reply["latency_s"]["mean"] > size / 1e6 > 0
    assert "Swapping:    " in ask(*words, "--swap").out
    (folder / "hard.toml").write_text(tight.replace("raspberry-pi-4", "jetson-tx2"))
    message = ask("plan", "m.onnx", "--cluster", "hard.toml", "--swap").message
    assert 'give one a rate in the cluster file, such as swap = "10 MB/s"' in message


def test_a_run_says_that_nothing_was_swapped(ask: Ask, folder: Path) -> None:
    """Workers hold what they load: the measured time is not beside the predicted one for free."""
    swapping = CLUSTER.replace('"1 GB"', '"4 kB"')
    swapping = swapping.replace("threads = 1", 'threads = 1\nswap = "1 MB/s"')
    for text, told in ((swapping, 1), (CLUSTER, 0)):
        (folder / "c.toml").write_text(text)
        cluster = load_cluster(folder / "c.toml")
        words = ("plan", "m.onnx", "--planner", "single", "--cluster", "c.toml", "-o", "p.json")
        assert ask(*words, *(("--swap",) if told else ())).code == 0
        loaded = read_plan(PlanFiles(folder / "p.json", None, None, None))
        predicted = predict(CostModel(loaded.graph, cluster), loaded.plan)
        ran = SimpleNamespace(loaded=loaded, predicted=predicted)
        reply = Reply({}, [])
        add_unswapped(reply, cast("Ran", ran))
        assert len(reply.payload.get("notes", ())) == len(reply.shown) == told
