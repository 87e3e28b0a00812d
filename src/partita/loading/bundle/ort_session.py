"""The engine's session of a child: nothing is optimised or prepacked unless asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.engine.session import SPIN_US, SessionConfig, open_session


def open_child(path: Path, threads: int, *, prepack: bool = False) -> Any:
    """The session of a child; what the engine raises is passed on.

    Args:
        path: The child's ONNX file, its weights beside it.
    """
    config = SessionConfig(
        threads=threads,
        optimise="none",
        prepack=prepack,
        spin_us=SPIN_US,
        # Else the second request would have new memory, of the sizes that the first one saw.
        memory_plan=False,
    )
    return open_session(path, config)
