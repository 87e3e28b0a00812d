"""What a trial's process imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Modules that only one of the variants of a model needs, or none.
HEAVY = ("onnx", "onnxruntime", "scipy", "torch", "partita.planners", "partita.graph")


@pytest.mark.parametrize(("module", "needed"), [("chain", ()), ("eager", ("torch",))])
def test_no_rival_pays_for_what_it_does_not_use(module: str, needed: tuple[str, ...]) -> None:
    """Loading a rival's module loads neither the engine nor what plans, draws and compares."""
    script = (
        f"import sys, partita.reproduce.loading.bench.{module}\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(list(needed))
