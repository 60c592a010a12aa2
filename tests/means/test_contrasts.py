"""Differences: intervals and p-values that agree with each other, with the usual ones, and with published tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.groups import comparisons as anova
from dpstats.means.ratio import (
    DifferenceErrors,
    Noise,
    Ratio,
    Tukey,
    apart,
    difference_score,
    range_quantile,
    range_tail,
)

NOISE = Noise(8.45, 8.9, 8.0, 8.45, 8.9, 0.77 * 8.9**2)
Z = 1.959963984540054


def group(m: float, n: float, variance: float = 0.06, noise: Noise = NOISE) -> Ratio:
    T, N = np.array([m * n]), np.array([n])
    return Ratio(T, N, np.array([n * (variance + m**2)]), T, N, noise)


def test_large_groups_have_the_usual_test() -> None:
    a, b = group(0.11, 4e6), group(0.10, 1e6)
    se = np.sqrt(0.06 / 4e6 + 0.06 / 1e6)
    assert difference_score(a, b)[0] == pytest.approx(0.01 / se, rel=0.02)
    assert difference_score(b, a)[0] == pytest.approx(-0.01 / se, rel=0.02)
    low, high = apart(a, b, Z)
    assert (low[0], high[0]) == pytest.approx((0.01 - Z * se, 0.01 + Z * se), abs=0.03 * se)


@pytest.mark.parametrize("sizes", [(4000, 1000), (300, 30), (50, 5), (8, 2000)])
def test_intervals_are_the_differences_that_are_not_rejected(sizes: tuple[int, int]) -> None:
    # A difference of 0 is inside exactly where the score says so.
    found = [group(m, sizes[0]) for m in np.linspace(-0.9, 0.9, 61)]
    b = group(0.0, sizes[1])
    for a, z in ((a, abs(float(difference_score(a, b)[0]))) for a in found):
        # Ends are asked for at levels that are in use; far out a few angles are too few.
        if z > 6:
            continue
        low, high = apart(a, b, 1.02 * z + 1e-6)
        assert low[0] <= 0 <= high[0]
        low, high = apart(a, b, 0.98 * z)
        # Of a group that noise hides the interval is a hull, which may hold what is refuted.
        assert z < 1e-3 or min(sizes) < 10 or not low[0] <= 0 <= high[0]


def test_groups_that_noise_hides_may_be_anywhere() -> None:
    low, high = apart(group(0.2, 1.0), group(0.2, -3.0), Z)
    assert low[0] == pytest.approx(-2.0, abs=0.01) and high[0] == pytest.approx(2.0, abs=0.01)


def test_many_pairs_are_as_each_alone() -> None:
    rng = np.random.default_rng(4)
    N = rng.uniform(5, 500, (2, 2500, 1))
    T = rng.uniform(-1, 1, N.shape) * N
    first, second = (Ratio(T[i], N[i], 0.3 * N[i], T[i], N[i], NOISE) for i in range(2))
    scores, (low, high) = difference_score(first, second), apart(first, second, Z)
    for i in (0, 1023, 1024, 2499):
        assert difference_score(first[i : i + 1], second[i : i + 1]) == pytest.approx(scores[i : i + 1])
        alone = apart(first[i : i + 1], second[i : i + 1], Z)
        assert np.allclose(alone, (low[i : i + 1], high[i : i + 1]))


def test_differences_cover() -> None:
    # 2000 runs: a standard error of .005.
    rng = np.random.default_rng(0)
    for sizes in ((400, 100), (60, 10)):
        ratios = []
        for n, m in zip(sizes, (0.2, -0.3), strict=True):
            rows = np.clip(rng.normal(m, 0.25, (2000, n)), -1, 1)
            T, Q = rows.sum(axis=1)[:, None], (rows**2).sum(axis=1)[:, None]
            off_T, off_N, off_Q = anova.draw(NOISE, T.shape, rng)
            T, N = T + off_T, n + off_N
            ratios.append(Ratio(T, N, Q + off_Q, T, N, NOISE))
        low, high = apart(*ratios, Z)
        # The clip moves these means by next to nothing.
        assert ((low <= 0.5) & (high >= 0.5)).mean() > 0.94
        low, high = apart(*ratios, Z / 2)
        assert ((low <= 0.5) & (high >= 0.5)).mean() < 0.9


def test_the_range_is_tukeys() -> None:
    # Table values at infinite degrees of freedom (Harter 1960): q(.05; 3), q(.05; 10), q(.01; 5).
    assert range_quantile(0.05, 3) == pytest.approx(3.314, abs=6e-4)
    assert range_quantile(0.05, 10) == pytest.approx(4.474, abs=6e-4)
    assert range_quantile(0.01, 5) == pytest.approx(4.603, abs=6e-4)
    for K in (2, 3, 50):
        for x in (0.5, 2.0, 5.0):
            expected = stats.studentized_range.sf(x, K, np.inf)
            assert float(range_tail(np.array(x), K)) == pytest.approx(expected, abs=1e-7)
    assert range_tail(np.array(30.0), 4) == pytest.approx(12 * stats.norm.sf(30 / np.sqrt(2)))
    # Two groups: a normal test.
    assert range_quantile(0.05, 2) == pytest.approx(Z * np.sqrt(2), abs=1e-6)


def test_tukeys_range_adjusts_as_the_range_itself() -> None:
    z = np.array([0.0, 0.7, 2.5, 6.0])
    for groups in (2, 5, 40):
        pvalues = Tukey(groups).adjust(2 * stats.norm.sf(z))
        assert pvalues == pytest.approx(range_tail(np.sqrt(2.0) * z, groups), rel=1e-9)
        each = Tukey(groups).each(0.95, 1)
        assert stats.norm.isf((1 - each) / 2) * np.sqrt(2) == pytest.approx(range_quantile(0.05, groups))


@pytest.mark.parametrize("sizes", [(4000, 1000), (300, 60)])
def test_limits_are_tested_at_their_level(sizes: tuple[int, int]) -> None:
    errors = DifferenceErrors(group(0.2, sizes[0]), group(-0.1, sizes[1]), 10.0)
    for tail in (0.005, 0.025, 0.1):
        low, high = errors.limits(tail)
        # The limits are found on a few angles: to a half percent of their z.
        assert errors.two_sided(low) == pytest.approx(2 * tail, rel=0.03)
        assert errors.two_sided(high) == pytest.approx(2 * tail, rel=0.03)
    assert errors.score(np.array([20.0]))[0] < errors.score(np.array([3.0]))[0] < errors.score(np.zeros(1))[0]


def test_many_pairs_with_tails_of_their_own() -> None:
    rng = np.random.default_rng(4)
    N = rng.uniform(50, 500, (2, 1500, 1))
    T = rng.uniform(-1, 1, N.shape) * N
    first, second = (Ratio(T[i], N[i], 0.9 * N[i], T[i], N[i], NOISE) for i in range(2))
    tails = rng.uniform(0.01, 0.4, (1500, 1))
    low, high = DifferenceErrors(first, second, 1.0).limits(tails)
    for i in (0, 1023, 1024, 1499):
        alone = DifferenceErrors(first[i : i + 1], second[i : i + 1], 1.0).limits(float(tails[i, 0]))
        assert np.allclose(alone, (low[i : i + 1], high[i : i + 1]))


def test_the_standard_error_of_large_groups_is_the_usual_one() -> None:
    errors = DifferenceErrors(group(0.11, 4e6), group(0.10, 1e6), 3.0)
    assert errors.standard_error[0] == pytest.approx(3 * np.sqrt(0.06 / 4e6 + 0.06 / 1e6), rel=0.03)
