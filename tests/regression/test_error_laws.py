"""The tails of errors: normal ones, and sums with Laplace noise in whatever proportions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from dpstats.inference.error_distributions import normal_laplace_tail
from dpstats.regression.coefficient_errors import NORMAL, NormalAndLaplace, Robust, Student

NORMAL_AND_LAPLACE = NormalAndLaplace(np.inf)
LEVELS = (0.5, 0.8, 0.9, 0.905, 0.92, 0.95, 0.99, 0.999)


def tail_of_sum(x: float, variances: np.ndarray, normal: float) -> float:
    """Return P(error > x) of independent Laplace numbers of these variances and a normal one: an inverse transform."""
    t = np.linspace(1e-6, 80, 400_001)
    transform = np.exp(-normal * t**2 / 2) / np.prod(1 + variances[:, None] / 2 * t**2, axis=0)
    return float(0.5 - trapezoid(np.sin(t * x) / t * transform, t) / np.pi)


def test_the_normal_law_is_scipys() -> None:
    z = np.array([-2.0, 0.0, 1.0, 6.0])
    assert np.allclose(NORMAL.tail(z), stats.norm.sf(z), rtol=1e-12)
    assert NORMAL.reach(0.025) == pytest.approx(1.959964, abs=1e-6)
    assert NORMAL.joint_tail(2.0, 3, 100) == pytest.approx(stats.f.sf(2.0, 3, 100))
    assert NORMAL.joint_tail(2.0, 3, -5) == pytest.approx(stats.f.sf(2.0, 3, 1))


def test_students_law_is_scipys() -> None:
    law = Student(16)
    assert law.reach(0.025) == pytest.approx(stats.t.isf(0.025, 16))
    assert np.allclose(law.tail([-1.0, 2.0]), stats.t.sf([-1.0, 2.0], 16))
    assert law.joint_tail(2.0, 3, 16) == pytest.approx(stats.f.sf(2.0, 3, 16))
    assert Student(-3).reach(0.25) == pytest.approx(1.0)


def test_a_tail_is_that_of_what_it_reaches() -> None:
    for law, level in itertools.product((NORMAL, NORMAL_AND_LAPLACE), LEVELS):
        tail = (1 - level) / 2
        assert law.tail(law.reach(tail)) == pytest.approx(tail, rel=1e-9)
        # One-sided intervals at levels below one half.
        assert law.tail(law.reach(1 - tail)) == pytest.approx(1 - tail, rel=1e-9)
    assert NORMAL_AND_LAPLACE.reach(0.025) == pytest.approx(np.log(20) / np.sqrt(2))


def test_no_sum_with_laplace_noise_exceeds_its_tails() -> None:
    for level in LEVELS:
        tail = (1 - level) / 2
        reach = NORMAL_AND_LAPLACE.reach(tail)
        for part in np.linspace(0.001, 0.999, 50):
            # One Laplace number and a normal one, exactly.
            assert normal_laplace_tail(reach, np.sqrt(1 - part), np.sqrt(part / 2)) <= tail * (1 + 1e-9)
    for level, count, part, lead in itertools.product((0.8, 0.9, 0.95), (2, 5), (0.3, 0.9, 1 - 1e-6), (0.2, 0.5, 0.9)):
        tail = (1 - level) / 2
        variances = part * np.array([lead, *[(1 - lead) / (count - 1)] * (count - 1)])
        assert tail_of_sum(NORMAL_AND_LAPLACE.reach(tail), variances, 1 - part) <= tail * (1 + 1e-4)


def test_the_normal_reach_would_be_too_short() -> None:
    assert normal_laplace_tail(NORMAL.reach(0.005), 0.0, np.sqrt(0.5)) > 2 * 0.005


@pytest.mark.parametrize("q", [1, 2, 5, 30, 300])
def test_the_joint_tail_is_that_of_normal_errors_of_one_random_variance(q: int) -> None:
    rng = np.random.default_rng(q)
    wald = rng.exponential(size=400_000) * rng.chisquare(q, size=400_000)
    for statistic in (4.0, 6.0):
        share = np.mean(wald > q * statistic)
        # Five standard deviations of a share: a false alarm in 10^6.
        assert NORMAL_AND_LAPLACE.joint_tail(statistic, q, 10**6) == pytest.approx(
            share, abs=5 * np.sqrt(share / 400_000)
        )
    assert NORMAL_AND_LAPLACE.joint_tail(0.0, q, 10) == 1.0
    assert NORMAL_AND_LAPLACE.joint_tail(1e12, q, 10) < 1e-6
    if q == 1:
        assert NORMAL_AND_LAPLACE.joint_tail(9.0, 1, 10**9) == pytest.approx(2 * NORMAL_AND_LAPLACE.tail(3.0))


def test_joint_tests_with_a_robust_covariance_have_hotellings_distribution() -> None:
    law = Robust(20.0)
    # T^2 = 3 * 2.0 with 20 degrees of freedom of the covariance
    assert law.joint_tail(2.0, 3, 50) == pytest.approx(stats.f.sf(2.0 * 18 / 20, 3, 18))
    assert law.joint_tail(2.0, 1, 50) == pytest.approx(2 * float(law.tail(np.sqrt(2.0))))
    assert Robust(2.0).joint_tail(2.0, 5, 3) == pytest.approx(stats.f.sf(1.0, 5, 1))
