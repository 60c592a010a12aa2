"""Linear regression by the functional mechanism: pure privacy, and intervals with the tails of Laplace noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.regression.coefficient_errors import NORMAL, NormalAndLaplace
from dpstats.textbook import FunctionalMechanismRegression
from tests.regression.test_sufficient import covered, dataset


@pytest.mark.parametrize(
    ("n", "d", "design", "epsilon"),
    [
        (5000, 3, "", 1.0),
        (5000, 3, "AR(.7)", 3.0),
        (5000, 3, "t3", 1.0),
        (5000, 3, "exponential", 1.0),
        (5000, 3, "indicators", 1.0),
        (20_000, 3, "scales", 3.0),
        (20_000, 2, "off center", 3.0),
        (20_000, 10, "", 3.0),
    ],
)
def test_intervals_cover(n: int, d: int, design: str, epsilon: float) -> None:
    hits, of = covered(FunctionalMechanismRegression, 100, n + d, n, d, design, epsilon=epsilon)
    assert of >= 80 * d
    # At coverage .93 so few are seen once in 10^4; slopes of a fit are nearly independent given x.
    assert stats.binom.cdf(hits, of, 0.93) > 1e-4


def test_intervals_hold_far_out_where_normal_ones_would_not() -> None:
    # One column, next to no sampling error: the noise of x'y is nearly all.
    rng, z = np.random.default_rng(0), []
    X, y, _ = dataset(20_000, 1, rng)
    for _ in range(1500):
        made = FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-9000, 9000), random_state=rng).fit(X, y - 1)
        z.append(abs(made.coef_[0] - 0.5) / made.standard_errors_[0])
    far = [int(np.sum(np.array(z) > law.reach(0.0005))) for law in (NormalAndLaplace(math.inf), NORMAL)]
    # So many of 1500 at .001 are seen once in 10^4; beyond the normal law's reach there are more.
    assert stats.binom.sf(far[0] - 1, 1500, 0.001) > 1e-4
    assert stats.binom.sf(far[1] - 1, 1500, 0.001) < 1e-4


def test_intervals_and_tests_go_by_one_law() -> None:
    rng = np.random.default_rng(1)
    X, y, _ = dataset(5000, 2, rng)
    made = FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-9, 11), random_state=0).fit(X, y)
    low, high = made.confidence_interval()
    assert np.allclose((high - low) / 2, math.log(20) / math.sqrt(2) * made.standard_errors_)
    # At its end a value is rejected at the level of the interval.
    assert made.test(0, value=float(high[0])).pvalue[0] == pytest.approx(0.05)
    assert made.test(0, value=float(high[0]), alternative="less").pvalue[0] == pytest.approx(0.025)
    one, both = made.f_test(0), made.f_test()
    assert one.pvalue >= made.test(0).pvalue[0] * (1 - 1e-9)
    assert both.pvalue < 1e-5


def test_it_is_pure() -> None:
    made = FunctionalMechanismRegression(x_bounds=(0, 1), y_bounds=(0, 1), epsilon=0.7)
    assert "delta" not in made.get_params()
    plan = made.plan(100, 2)
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (0.7, 0.0)
    assert {stage.noise for stage in plan.stages} == {"laplace"}
    assert "Laplace noise on its coefficients" in str(
        made.set_params(random_state=0).fit(np.zeros((50, 2)), np.zeros(50)).summary()
    )


def test_noise_is_less_than_the_sources() -> None:
    # Zhang et al. (2012): 2(1 + 2d + d^2) in half-widths for rows of the box, in entries of the whole matrix; the
    # noise of an entry above the diagonal, which stands for two of them, is half of that over epsilon.
    for d in (1, 3, 10):
        plan = FunctionalMechanismRegression(x_bounds=(-1, 1), y_bounds=(-1, 1)).plan(1000, d)
        radius = plan.question.bound / 2**18
        own = plan.matrix_noise.above / math.sqrt(2) * 1000 * radius**2
        assert own == pytest.approx(1.02 * radius**2, rel=1e-3)
        assert own < (1 + d) ** 2
