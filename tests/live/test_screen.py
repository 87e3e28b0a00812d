"""What a terminal shows."""

from __future__ import annotations

from rich.console import Console
from tests.live.samples import replay, scene_of

from partita.live import LiveState, Snapshot, draw_screen


def watch(*names: str, title: str = "net on lab", turns: int = 10) -> Snapshot:
    """What is seen after some seconds."""
    state, take = LiveState(), replay(names)
    scene = scene_of(*names, title=title)
    for _ in range(turns):
        seen = state.fold(take(state.answers), scene)
    return seen


def show(seen: Snapshot, width: int = 100) -> str:
    """The text of a terminal."""
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(draw_screen(seen))
    return captured.get()


def test_the_screen_has_measured_beside_predicted() -> None:
    """Rates, latencies, devices with shares, the loss, and the bottleneck are there."""
    text = show(watch("camera", "recorder", "nano"))
    assert "10 images/s (10 predicted)" in text
    assert "p50 120 ms (100 ms predicted)" in text
    assert "is the bottleneck" in text
    assert "lost" in text
    assert "without 'nano'" in text


def test_names_are_shown_as_they_are() -> None:
    """What looks like console markup, or moves the cursor, is text."""
    text = show(watch("[bold]a", "b\x1b[2Jc", title="[red]t\x1b[2J"))
    assert "[bold]a" in text
    assert "[red]t" in text
    assert "\x1b" not in text


def test_a_terminal_of_many_devices_is_short() -> None:
    """32 devices fit into a window of some dozens of lines."""
    text = show(watch(*(f"d{n}" for n in range(32))))
    assert len(text.splitlines()) < 60
    assert "Links, 8 of" in text
