"""Nothing reports to anybody."""

from __future__ import annotations

import os
import subprocess
import sys

_SPY = """
import os, sys

class Spy:
    def find_spec(self, name, *rest):
        if name == "onnxruntime":
            print(os.environ.get("ORT_DISABLE_TELEMETRY"))

sys.meta_path.insert(0, Spy())
import partita.engine.session
"""


def test_the_engine_is_told_before_it_is_imported() -> None:
    """Whatever is imported first: the engine reads the variable once, when it is imported."""
    clean = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    told = subprocess.check_output([sys.executable, "-c", _SPY], text=True, env=clean)
    assert told.split() == ["1"]
