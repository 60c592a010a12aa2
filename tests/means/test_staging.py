"""The planner of the adaptive mean: its bounds against simulated and integrated truth."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import integrate, stats

from dpstats.means import AdaptiveMean
from dpstats.means import adaptive_radii as staging
from dpstats.means.adaptive_radii import TAILS, plan_stages
from dpstats.privacy import gaussian_sigma

RNG = np.random.default_rng(0)


def clip(rows: np.ndarray, radius: float) -> np.ndarray:
    return rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]


def test_a_plan_is_quick_and_a_function_of_public_numbers() -> None:
    # Counted, not timed: as many calls however many rows and columns, of about ten milliseconds.
    for n, d in ((500, 5), (10_000, 500), (10**7, 5000)):
        plans, calls = [], 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        for _ in range(2):
            sys.setprofile(count)
            try:
                plans.append(plan_stages.__wrapped__(n, d, "subgaussian", 100.0, 100.0, 100 / n**2, 1))
            finally:
                sys.setprofile(before)
        assert plans[0] == plans[1]
        assert 2 * 100 < calls < 2 * 6000


@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_shares_never_exceed_the_whole(tails: str, exponent: int) -> None:
    for noise in (1e-8, 1e-5, 1e-2):
        stages = plan_stages(1000, 7, tails, 100.0, 100.0, noise, exponent)
        assert 1 - 1e-12 < sum(stages.shares) < 1
        assert 1 <= len(stages.shares) <= 16
        assert min(stages.radii) > 0 and min(stages.biases) >= 0
        # The first ball is about a center that knows nothing but the box; the last is much smaller,
        # unless little noise makes bias the larger error.
        assert stages.radii[0] > np.sqrt(7 * 101) * (0.8 if tails == "symmetric" else 1)
        assert noise > 1e-3 or tails == "variance" or stages.radii[-1] < stages.radii[0] / 2


def test_one_column_has_the_exact_normal_bias() -> None:
    # d = 1: E(|Z| - B)_+ = 2 (phi(B) - B Phi(-B)).
    curves = staging.stage_curves(1, "subgaussian")
    radius = np.sqrt(curves.q)
    exact = 2 * (stats.norm.pdf(radius) - radius * stats.norm.sf(radius))
    np.testing.assert_allclose(curves.constant, exact, rtol=6e-3, atol=1e-8)
    assert np.all(curves.constant >= exact)


@pytest.mark.parametrize("d", [2, 10])
def test_bias_bounds_hold_at_the_mean(d: int) -> None:
    # Lopsided in every column, yet no column beyond normal tails: |Y_j| is normal, signs depend on the norm.
    rows = RNG.standard_normal((200_000, d))
    far = np.einsum("ij,ij->i", rows, rows) > stats.chi2(d).ppf(0.9)
    rows = np.where(far[:, None], np.abs(rows), -np.abs(rows))
    for tails, law in (("subgaussian", rows), ("variance", RNG.standard_exponential((200_000, d)) - 1)):
        curves = staging.stage_curves(d, tails)
        for i in range(0, curves.q.size, 40):
            lost = law - clip(law, np.sqrt(curves.q[i]))
            bias, error = lost.mean(axis=0), lost.std(axis=0) / np.sqrt(len(lost))
            # Four standard errors: a false alarm below 1e-3 over all columns and radii.
            assert np.all(np.abs(bias) - 4 * error <= curves.constant[i])
    # The comonotone bound is nearly attained by these rows, so half of it would be noticed.
    curves = staging.stage_curves(d, "subgaussian")
    lost = rows - clip(rows, np.sqrt(curves.q[0]))
    assert np.abs(lost.mean(axis=0)).max() > 0.5 * curves.constant[0]


@pytest.mark.parametrize("d", [1, 3, 30])
def test_slope_and_spread_of_symmetric_rows(d: int) -> None:
    curves = staging.stage_curves(d, "symmetric")
    rows = RNG.standard_normal((400_000 // d, d))
    rows = np.vstack([rows, -rows])  # antithetic: the mean is exactly 0
    for i in (0, curves.q.size // 2):
        shift = 0.05
        radius = np.sqrt(curves.q[i])
        moved = clip(rows + shift, radius).mean()
        assert moved / shift == pytest.approx(curves.slope[i], rel=0.02)
        assert np.std(clip(rows, radius)) / curves.slope[i] == pytest.approx(curves.spread[i], rel=0.01)
        assert curves.shift[i] == pytest.approx(1 / curves.slope[i] - 1)


def test_variance_bound_is_its_formula() -> None:
    # E|x_j| (1 - B/||x||)_+ <= sqrt(d)/(4B) for second moments of 1: (1 - B/y)_+ <= y/(4B).
    curves = staging.stage_curves(9, "variance")
    np.testing.assert_allclose(curves.constant, 3 / (4 * np.sqrt(curves.q)))
    y = np.linspace(0.01, 50, 10_000)
    assert np.all(np.maximum(1 - 2 / y, 0) <= y / 8 + 1e-15)


def test_comonotone_integral() -> None:
    # The grid sum against adaptive quadrature of int_0^u z(s) (1 - sqrt(q(u)/q(s))) ds.
    d = 6
    curves = staging.stage_curves(d, "subgaussian")
    u = stats.chi2(d).sf(curves.q[0])

    def integrand(s: float) -> float:
        return stats.norm.isf(s / 2) * (1 - np.sqrt(curves.q[0] / stats.chi2(d).isf(s)))

    assert curves.constant[0] == pytest.approx(integrate.quad(integrand, 0, u)[0], rel=6e-3)


def test_more_of_anything_helps() -> None:
    def length(noise: float, reach2: float) -> float:
        stages = plan_stages(2000, 5, "subgaussian", reach2, reach2, noise, 1)
        precision = [share / (noise * radius**2) for share, radius in zip(stages.shares, stages.radii, strict=True)]
        return 1 / sum(precision)

    # Less noise, or a narrower box; the box counts by its logarithm only.
    assert length(1e-6, 100.0) < length(1e-5, 100.0) < length(1e-4, 100.0)
    assert length(1e-5, 10.0) < length(1e-5, 1e8) < 3 * length(1e-5, 10.0)


def test_unequal_columns_are_planned_for_the_widest() -> None:
    equal = plan_stages(2000, 5, "variance", 100.0, 100.0, 1e-5, 1)
    wide = plan_stages(2000, 5, "variance", 100.0, 500.0, 1e-5, 1)
    # A column further out may be clipped more, so larger balls, and more noise, are planned.
    assert wide.radii[0] > equal.radii[0]


@pytest.mark.parametrize("exponent", [1, 2])
@pytest.mark.parametrize("tails", staging.TAILS)
def test_balls_hold_half_of_the_rows_however_far_the_center(tails: str, exponent: int) -> None:
    # From the stages alone: the center's noise has the information so far; beyond it by `_far` is the promise.
    n, d, noise, norm2 = 500, 2, 1e-4, 1e6
    stages = plan_stages(n, d, tails, norm2, norm2, noise, exponent)
    info = 0.0
    for share, radius, slope in zip(stages.shares, stages.radii, stages.slopes, strict=True):
        shrunk = info + 1 / norm2
        reach = staging._far(d, laplace=exponent == 2)[1] * np.sqrt(info) / shrunk
        assert radius >= np.sqrt(d + reach**2) * (1 - 1e-9)
        info += slope**2 * share**exponent / (noise * radius**2)


def test_how_far_noise_reaches() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 3, 20):
        for laplace in (False, True):
            draws = rng.laplace(scale=2**-0.5, size=(200_000, d)) if laplace else rng.normal(size=(200_000, d))
            beyond = np.mean(np.linalg.norm(draws, axis=1) > staging._far(d, laplace=laplace)[1])
            # _LOST for normal noise; for Laplace noise, of a planner's rule of thumb, within a factor of three.
            assert beyond <= (3 if laplace else 1) * staging._LOST + 4 * np.sqrt(staging._LOST / 200_000)


@pytest.mark.parametrize("d", [1, 2, 8, 300])
def test_what_is_clipped_together(d: int) -> None:
    # Root mean squares of the loss of a normal row, and of its slope, against quadrature.
    curves = staging.stage_curves(d, "subgaussian")
    law, end = stats.chi2(d), stats.chi2(d).isf(1e-15)

    def beyond(power: float, q: float) -> float:
        return integrate.quad(lambda s: s**power * law.pdf(s), q, end)[0]

    for i in (0, 60, 120):
        q = curves.q[i]
        u = beyond(0, q)
        loss = beyond(1, q) - 2 * np.sqrt(q) * beyond(0.5, q) + q * u
        slope = u + (d - 1) * (u - 2 * np.sqrt(q) * beyond(-0.5, q) + q * beyond(-1, q))
        assert curves.loss[i] == pytest.approx(np.sqrt(loss / d), rel=1e-3)
        assert 1 <= curves.variation[i] / np.sqrt(slope / d) < 1.25


def gaussian_noise(n: int, epsilon: float) -> float:
    return (2 * gaussian_sigma(epsilon, 1e-6) / n) ** 2


@pytest.mark.parametrize(("n", "d", "epsilon"), [(200, 1, 1.0), (900, 1, 0.5)])
def test_errors_count_where_noise_dominates(n: int, d: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = gaussian_noise(n, epsilon)

    def planned() -> float:
        stages = plan_stages.__wrapped__(n, d, "subgaussian", 100.0, 100.0, noise, 1)
        return float(staging.planned_error(staging.bound_average(stages, noise, 1), n))

    least = planned()
    monkeypatch.setattr(staging, "MOST_LOST", 0.0)
    assert least < 0.94 * planned()


@pytest.mark.parametrize(("n", "d", "epsilon"), [(20_000, 20, 0.5), (5000, 1, 1.0), (5000, 5, 1.0)])
def test_elsewhere_the_shortest_intervals_are_planned(
    n: int, d: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = (n, d, "subgaussian", 100.0, 100.0, gaussian_noise(n, epsilon), 1)
    found = plan_stages.__wrapped__(*numbers)
    monkeypatch.setattr(staging, "MOST_LOST", 0.0)
    assert plan_stages.__wrapped__(*numbers) == found


def test_where_noise_hides_the_box_less_is_assumed() -> None:
    # The error was 3.6 in a box of half-width 10, where the balls of "variance" have 2.9.
    numbers = (100, 5, 100.0, 100.0, gaussian_noise(100, 0.5))
    default, variance = (plan_stages(*numbers[:2], tails, *numbers[2:], 1) for tails in ("subgaussian", "variance"))
    assert default.radii == variance.radii
    plans = [AdaptiveMean(epsilon=0.5, bound=10.0, std=1.0, tails=tails) for tails in ("subgaussian", "variance")]
    rng, errors = np.random.default_rng(11), np.zeros((2, 150))
    for i in range(150):
        mean = rng.uniform(-10, 10, 5)
        rows = mean + rng.standard_normal((100, 5))
        for k, estimator in enumerate(plans):
            errors[k, i] = np.mean((estimator.set_params(random_state=i).fit(rows).mean_ - mean) ** 2)
    # The count costs 3% more noise.
    ratio = np.sqrt(errors[0].mean() / errors[1].mean())
    assert ratio < 1.1
