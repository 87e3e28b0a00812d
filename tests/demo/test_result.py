import pytest

from tests.demo.samples import make_result


def test_speed_up_is_measured_against_measured():
    """Speed-up compares medians of what was measured, never a prediction."""
    result = make_result()
    assert result.speed_up == pytest.approx(2.0)


def test_moved_bytes_are_per_photo():
    """Bytes of three runs count once each."""
    assert make_result().divided.moved_bytes == 2000


def test_exact_means_rounding_only():
    """A difference above a hundred-thousandth of the largest value is not exact."""
    assert make_result(difference=7e-5).is_exact
    assert not make_result(difference=9e-5).is_exact
    assert make_result(difference=7e-5).max_difference == 7e-5


def test_read_exactly_compares_with_what_was_drawn():
    """One wrong character is not read exactly."""
    assert make_result().is_read_exactly
    assert not make_result(read="A12346").is_read_exactly
