"""How laws draw: anew at every run, and the same where a run is to be repeated.

``HYPOTHESIS_PROFILE=same python -m pytest`` draws the same cases each time. A law that
fails prints the line that repeats its case.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "anew", deadline=None, database=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile("same", settings.get_profile("anew"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "anew"))


@pytest.fixture(autouse=True, scope="session")
def _wide_tables() -> None:
    """Tables are as wide as where nothing says how wide: tests of pytest-xdist find 80 columns."""
    os.environ.pop("COLUMNS", None)
