"""Ranges of codes: by hand, against numeric minima, and for odd rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from partita.quantisation.clipping import Coder, Rows, laplace_clip, normal_clip

WIDTHS = (2, 3, 4, 6, 8)


@pytest.mark.parametrize(
    ("bits", "values"),
    [
        (2, [-7, 0, 0, 0, 7, 7]),
        (3, [-7, -7 / 3, 0, 7 / 3, 14 / 3, 7]),
        (4, [-7, -3, 0, 1, 5, 7]),
    ],
)
def test_whole_range_around_zero_by_hand(bits: int, values: list[float]) -> None:
    """The largest magnitude gets the last code; others the nearest step."""
    rows = Rows(np.array([[-7, -3, 0, 1.4, 5, 7]], np.float32))
    packing = Coder(bits, affine=False).pack(*Coder(bits, affine=False).limits(rows, "max"))
    assert np.allclose(packing.round(rows.values), [values])


@pytest.mark.parametrize(
    ("bits", "scale", "zero", "values"),
    [
        (2, 3.0, 1, [-3, 0, 3, 6]),
        (4, 0.6, 3, [-1.8, 0, 3, 7.2]),
    ],
)
def test_whole_range_from_low_to_high_by_hand(
    bits: int, scale: float, zero: int, values: list[float]
) -> None:
    """A range of 9 from -2 to 7 has 2**bits - 1 steps, and 0 is one of its values."""
    coder, rows = Coder(bits, affine=True), Rows(np.array([[-2, 0, 3, 7]], np.float32))
    packing = coder.pack(*coder.limits(rows, "max"))
    assert (packing.scale[()], packing.zero[()]) == (pytest.approx(scale), zero)
    assert np.allclose(packing.round(rows.values), [values])


def test_a_range_always_holds_zero() -> None:
    """Rows of one sign are covered from 0, and rows of zeros have steps of 1."""
    coder = Coder(8, affine=True)
    rows = Rows(np.array([[3, 5], [-5, -3], [0, 0]], np.float32))
    low, high = coder.limits(rows, "max")
    assert (low.tolist(), high.tolist()) == ([0, -5, 0], [5, 0, 0])
    packing = coder.pack(low, high, axis=0)
    assert packing.zero.tolist() == [0, 255, 0]
    assert packing.scale[2] == 1.0
    assert np.array_equal(packing.round(np.zeros((3, 2), np.float32)), np.zeros((3, 2)))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("affine", [False, True])
def test_least_squares_are_near_the_least(bits: int, affine: bool) -> None:
    """The range found for the mean squared error is at most 10 % worse than the best of 400."""
    rng = np.random.default_rng(bits)
    rows = Rows(rng.laplace(size=(4, 500)).astype(np.float32))
    coder = Coder(bits, affine)
    low, high = coder.limits(rows, "max")
    found = coder.error(rows, *coder.limits(rows, "mse"))
    shares = np.linspace(0.02, 1, 400)
    least = np.min([coder.error(rows, low * share, high * share) for share in shares], axis=0)
    assert (found <= 1.1 * least).all()
    assert (found <= coder.error(rows, low, high)).all()


@pytest.mark.parametrize("bits", WIDTHS)
def test_analytic_thresholds_are_numeric_minima(bits: int) -> None:
    """ACIQ's thresholds minimise clipping noise, integrated numerically, plus rounding noise."""

    def noise(density: object, clip: float) -> float:
        beyond = quad(lambda x: density(x) * (x - clip) ** 2, clip, 60)[0]  # type: ignore[operator]
        return 2 * beyond + clip**2 / (3 * 4**bits)

    def least(density: object) -> float:
        found = minimize_scalar(
            lambda clip: noise(density, clip), bounds=(0.5, 20), method="bounded"
        )
        return float(found.x)

    assert laplace_clip(bits) == pytest.approx(least(lambda x: np.exp(-x) / 2), rel=1e-3)
    normal = least(lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))
    assert normal_clip(bits) == pytest.approx(normal, rel=1e-3)


@pytest.mark.parametrize("draw", ["laplace", "normal"])
@pytest.mark.parametrize("bits", [2, 4])
def test_analytic_ranges_suit_their_distributions(draw: str, bits: int) -> None:
    """On numbers as it supposes, ACIQ is near the least squares and better than the whole range."""
    rng = np.random.default_rng(0)
    for values in (getattr(rng, draw)(size=20_000), np.maximum(getattr(rng, draw)(size=20_000), 0)):
        rows = Rows(values[None].astype(np.float32))
        coder = Coder(bits, affine=True)
        analytic, least, whole = (
            coder.error(rows, *coder.limits(rows, clipping))[0]
            for clipping in ("aciq", "mse", "max")
        )
        assert analytic < 0.7 * whole
        assert analytic < 1.6 * least


def test_counts_stand_for_repeated_numbers() -> None:
    """A row with counts has the range and the error of the row written out."""
    values, counts = np.array([-2, 0, 1, 3], np.float32), np.array([3, 10, 2, 1], float)
    short = Rows(values[None], counts)
    long = Rows(np.repeat(values, counts.astype(int))[None])
    coder = Coder(3, affine=True)
    for clipping in ("max", "mse", "aciq"):
        ends = coder.limits(long, clipping)
        assert np.allclose(coder.limits(short, clipping), ends)
        assert np.allclose(coder.error(short, *ends), coder.error(long, *ends))
