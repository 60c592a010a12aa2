"""The mean of a uniform law in a box, given an estimate; and intervals cut to the box, or open."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpstats.means.boxed_errors import mean_in_box, outside_box, within_box

GRID = [
    (value, std)
    for value in (-30.0, -12.0, -9.0, 0.0, 1e-3, 3.0, 10.0, 12.0, 40.0, 1e5)
    for std in (1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e4, 1e6)
]


def exact(value: float, std: float) -> float:
    """Return the mean of a normal law about the value, between -10 and 10, with sixty digits."""
    mpmath.mp.dps = 60
    v, s = mpmath.mpf(value), mpmath.mpf(std)
    a, b = (-10 - v) / s, (10 - v) / s
    if a > 0:
        mass = mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.erfc(b / mpmath.sqrt(2))
    else:
        mass = mpmath.erfc(-b / mpmath.sqrt(2)) - mpmath.erfc(-a / mpmath.sqrt(2))
    return float(v + 2 * s * (mpmath.npdf(a) - mpmath.npdf(b)) / mass)


@pytest.mark.parametrize(("value", "std"), GRID)
def test_it_is_the_mean_of_a_truncated_normal_law(value: float, std: float) -> None:
    found = float(mean_in_box(value, std, -10.0, 10.0))
    assert found == pytest.approx(exact(value, std), abs=1e-6)
    assert -10 <= found <= 10
    shifted = float(mean_in_box(value + 7, std, -3.0, 17.0))
    assert shifted == pytest.approx(found + 7, abs=1e-6)


def risk(mean: float, std: float, of: str) -> float:
    """Return the mean squared error at a mean, in a box of half-width 1, by quadrature over a normal error."""
    error = np.linspace(-9, 9, 20_001)
    values = mean + std * error
    made = {"shrunk": lambda: mean_in_box(values, std, -1.0, 1.0), "cut": lambda: np.clip(values, -1, 1)}[of]()
    weights = np.exp(-(error**2) / 2)
    return float(weights @ (made - mean) ** 2 / weights.sum())


@pytest.mark.parametrize("std", [0.05, 0.3, 1.0, 3.0, 50.0])
def test_its_risk_is_nowhere_above_that_of_the_estimate(std: float) -> None:
    # Hartigan (2004); attained at an end far from the other, where the box is a half-line.
    for mean in (0.0, 0.5, 0.9, 0.99, 1.0):
        assert risk(mean, std, "shrunk") <= std**2 * (1 + 1e-6)
    # On average over the box it is best, better than the cut; not at every mean: at an end the cut is better.
    means = np.linspace(-1, 1, 41)
    shrunk, cut = ([risk(mean, std, of) for mean in means] for of in ("shrunk", "cut"))
    assert np.mean(shrunk) < np.mean(cut)
    assert (np.array(shrunk) < cut).any() and not (std < 1 and np.all(np.array(shrunk) < cut))


def test_where_noise_dominates_it_is_no_worse_than_the_middle() -> None:
    assert risk(1.0, 50.0, "shrunk") == pytest.approx(1.0, rel=0.01) and risk(1.0, 50.0, "cut") > 1.9
    assert np.mean([risk(m, 50.0, "shrunk") for m in np.linspace(-1, 1, 41)]) <= 1 / 3 + 0.02


def test_intervals_are_cut_to_the_box_or_open() -> None:
    value = np.array([0.0, 9.5, 10.5, 92.0, -92.0, 15.0, 300.0, 10.0])
    half = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 50.0, 60.0, 1.0])
    ends = np.full(8, -10.0), np.full(8, 10.0)
    estimate = mean_in_box(value, half / 2, *ends)
    low, high = within_box(value, half, estimate, *ends)
    np.testing.assert_allclose(low[:3], [-1, 8.5, 9.5])
    np.testing.assert_array_equal(high[:3], [1.0, 10.0, np.inf])  # at the edge it is open
    assert high[3] == np.inf and 9.9 < low[3] <= 10  # and never [10, 10]
    assert low[4] == -np.inf and -10 <= high[4] < -9.9
    assert (low[5], high[5]) == (-10, 10)  # noise alone puts such a value outside
    assert high[6] == np.inf  # but not this one
    assert high[7] == 10.0
    assert np.all((low <= estimate) & (estimate <= high) & (low < high))
    below, above = outside_box(value, half, *ends)
    assert below.tolist() == [False] * 4 + [True] + [False] * 3
    assert above.tolist() == [False, False, True, True, False, False, True, False]
    # Rows that lie in the box by nature have no mean outside; an interval without ends excuses nothing.
    low, high = within_box(value, half, estimate, *ends, hard=True)
    assert np.all((low >= -10) & (high <= 10) & (low <= estimate) & (estimate <= high))
    low, high = within_box(np.array([144.0]), np.array([np.inf]), np.array([10.0]), *(e[:1] for e in ends))
    assert (low[0], high[0]) == (-10, np.inf)
