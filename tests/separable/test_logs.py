"""What training goes through, as event files."""

from pathlib import Path

from partita.separable.logs import open_log


def test_values_are_written(tmp_path: Path) -> None:
    """Into a folder of TensorBoard's; without a folder nowhere."""
    with open_log(tmp_path / "tensorboard") as log:
        log(1, {"search/loss": 0.5})
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"search/loss" in events.read_bytes()
    with open_log(None) as log:
        log(1, {"search/loss": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]
