"""Plans that may hold more than the devices' memory, as the command tells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from partita.cli.actions.run import Ran, add_short_memory
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


@pytest.mark.parametrize(
    ("memory", "flags", "told"),
    [
        ("4 kB", ("--swap",), "Swapping:    predicted on "),
        ("4 kB", (), "Memory:      by the cluster file short on "),
        ("1 GB", (), None),
    ],
)
def test_a_run_says_where_memory_was_short(
    ask: Ask, folder: Path, memory: str, flags: tuple[str, ...], told: str | None
) -> None:
    """Workers hold what they load: only what was planned to swap was predicted to."""
    rate = CLUSTER.replace("threads = 1", 'threads = 1\nswap = "1 MB/s"')
    (folder / "c.toml").write_text(rate.replace('"1 GB"', f'"{memory}"') if flags else CLUSTER)
    words = ("plan", "m.onnx", "--planner", "single", "--cluster", "c.toml", "-o", "p.json")
    assert ask(*words, *flags).code == 0
    loaded = read_plan(PlanFiles(folder / "p.json", None, None, None))
    (folder / "c.toml").write_text(rate.replace('"1 GB"', f'"{memory}"'))
    loaded = replace(loaded, cluster=load_cluster(folder / "c.toml"))
    predicted = predict(CostModel(loaded.graph, loaded.cluster), loaded.plan)
    reply = Reply({}, [])
    add_short_memory(reply, cast("Ran", SimpleNamespace(loaded=loaded, predicted=predicted)))
    assert len(reply.payload.get("notes", ())) == (told is not None)
    assert told is None or str(reply.shown[0]).startswith(told)
