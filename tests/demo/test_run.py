import pytest

from partita.demo import DemoOptions, run_demo
from partita.errors import InputError
from partita.exactness.compare import Difference


@pytest.mark.slow
def test_the_whole_demo():
    """Divided over four worker processes, the detector answers exactly and the plates are read."""
    said = []
    result = run_demo(DemoOptions(runs=2, budget_s=1.0), say=said.append)
    assert said[0] == "measuring this machine"
    assert result.is_exact
    assert result.is_read_exactly
    assert [difference.tensor for difference in result.differences] == ["loc", "conf", "landms"]
    assert all(isinstance(difference, Difference) for difference in result.differences)
    assert len(result.divided.measured.latencies_s) == 2
    assert len(result.single.devices) == 1
    assert result.single.predicted_s >= result.divided.predicted_s >= result.lower_bound_s


def test_impossible_photo_is_refused_before_anything_is_measured():
    """A wrong option costs no time."""
    said = []
    with pytest.raises(InputError, match="allowed 1 to 4"):
        run_demo(DemoOptions(plates=9), say=said.append)
    assert said == []
