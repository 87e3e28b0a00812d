"""What tests of served models share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.serve.fronts import serving, tiny_front


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where two models of the same chain answer."""
    with tiny_front(("tiny", "twin")) as front, serving(front) as place:
        yield place
