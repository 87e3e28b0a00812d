"""What this process asks of its allocator."""

import ctypes
import subprocess
import sys

import pytest

_PAGES = 2**27 // 4096
_FAULTS = """
import resource
from partita.memory import tune_malloc
{tune}
faults = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(2**27)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""


def _count_faults(tune: str) -> int:
    return int(
        subprocess.check_output([sys.executable, "-c", _FAULTS.format(tune=tune)], text=True)
    )


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc only")
def test_what_is_freed_stays_without_maps_and_trimming() -> None:
    """Parameters reach the C library: 128 MB that were freed are taken again without a fault."""
    assert _count_faults("") > _PAGES // 1024
    assert _count_faults("tune_malloc({-4: 0, -1: -1})") < 100
