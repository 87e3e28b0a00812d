"""Sizes of tensors and of their elements."""

import numpy as np
import pytest

from partita.errors import ModelError
from partita.program import DTYPE_BYTES, TensorSpec, type_bytes


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_elements_are_as_large_as_in_memory(dtype: str) -> None:
    """Each type that may travel takes as many bytes as NumPy's."""
    assert type_bytes(dtype) == np.dtype(dtype).itemsize
    assert TensorSpec("x", (2, 3), dtype).size_bytes == np.zeros((2, 3), dtype).nbytes


def test_an_unknown_type_is_refused() -> None:
    """No size is assumed for what is not known."""
    with pytest.raises(ModelError, match="'complex64' is unknown; allowed: float64, float32"):
        type_bytes("complex64")


def test_what_depends_on_the_data_has_no_size() -> None:
    """An extent of -1 counts as nothing."""
    assert TensorSpec("x", (1, -1, 4), "float32").size_bytes == 0
