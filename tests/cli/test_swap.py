"""Plans that may hold more than the devices' memory, as the command tells them."""

from __future__ import annotations

from pathlib import Path

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
