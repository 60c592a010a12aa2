"""Working distributions: moments against sums over the probabilities, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dpstats.regression.log_linear_plan import COUNTS, GAMMA, Bound, Counts, Gamma, _evaluate, make_family

MEANS = np.array([0.05, 0.7, 3.0, 40.0])


def count_law(mean: float, phi: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and probabilities of the negative binomial distribution of this mean and variance."""
    odds = phi - 1 + alpha * mean
    values = np.arange(4000)
    return values, stats.nbinom.pmf(values, mean / odds, 1 / (1 + odds))


@pytest.mark.parametrize("dispersion", [(1.3, 0.0), (1.0, 0.8), (3.0, 0.2)])
def test_moments_of_counts_are_sums_over_the_probabilities(dispersion: tuple[float, float]) -> None:
    family = Counts(1.0)
    for mean in MEANS:
        values, probabilities = count_law(mean, *dispersion)
        one = np.array([mean])
        assert family.std(one, dispersion)[0] ** 2 == pytest.approx(probabilities @ (values - mean) ** 2)
        for end in (0.0, 1.0, 2.5, mean, 3 * mean):
            found = family.excess(one, dispersion, np.array([end]))[0]
            assert found == pytest.approx(probabilities @ np.maximum(values - end, 0), abs=1e-9)
        at, clip = 1.2 * mean, 1.0 + mean
        residual = np.clip(values - at, -clip, clip)
        found = family.clipped_mean(one, np.array([at]), np.array([clip]), dispersion)[0]
        assert found == pytest.approx(probabilities @ residual, abs=1e-9)
        found = family.absolute(one, np.array([at]), dispersion, np.array([clip]))[0]
        assert found == pytest.approx(probabilities @ np.abs(residual), abs=1e-9)


def test_counts_of_little_dispersion_are_poisson() -> None:
    for mean in MEANS:
        for end in (0.0, 1.0, mean):
            # With this excess a Poisson variable of mean m is above `end`: m P(y >= end) - end P(y > end).
            whole = np.floor(end)
            wanted = mean * stats.poisson.sf(whole - 1, mean) - end * stats.poisson.sf(whole, mean)
            found = Counts(1.0).excess(np.array([mean]), (1.0, 0.0), np.array([end]))[0]
            assert found == pytest.approx(wanted, rel=0.01)


def test_moments_of_amounts_are_integrals() -> None:
    family, dispersion = Gamma(), (0.0, 0.6)
    rng = np.random.default_rng(0)
    for mean in MEANS:
        drawn = rng.gamma(1 / 0.6, 0.6 * mean, 400_000)
        one = np.array([mean])
        assert family.std(one, dispersion)[0] == pytest.approx(np.sqrt(0.6) * mean)
        clip = family.clip(one, 1.5, dispersion)
        found = family.clipped_mean(one, one, clip, dispersion)[0]
        assert found == pytest.approx(np.clip(drawn - mean, -clip, clip).mean(), abs=0.006 * mean)
        found = family.absolute(one, one, dispersion, clip)[0]
        assert found == pytest.approx(np.minimum(np.abs(drawn - mean), clip).mean(), rel=0.01)


def test_weights_and_least_clips() -> None:
    assert np.allclose(Counts(0.0).weight(MEANS), 1.0)
    assert np.allclose(Counts(2.0).weight(MEANS), 1 / (1 + 2 * MEANS))
    assert np.allclose(Gamma().weight(MEANS), 1 / MEANS)
    # A clip below one count would hide how large rare counts are.
    assert Counts(1.0).clip(np.array([1e-4]), 1.5, (1.0, 0.0))[0] == 1.0


def test_values_are_computed_where_they_count() -> None:
    # With its parameter `where`, a function of scipy ended the process here.
    rng = np.random.default_rng(0)
    x = rng.random((3, 241))
    for _ in range(50):
        where = rng.random((3, 241)) < 0.13
        found = _evaluate(special.gammainc, where, 2.0, x)
        assert np.array_equal(found, np.where(where, special.gammainc(2.0, x), 0.0))
    assert np.array_equal(_evaluate(special.gammainc, True, 2.0, x[0]), special.gammainc(2.0, x[0]))
    assert not _evaluate(special.gammainc, False, 2.0, x[0]).any()


def test_families_by_name() -> None:
    assert isinstance(make_family(COUNTS), Counts) and isinstance(make_family(GAMMA), Gamma)


@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_outcomes_with_a_bound_have_the_moments_of_clipped_ones(part: float) -> None:
    mean, bound, y = np.array([3.0]), Bound(5.0, part), np.arange(200)
    probabilities = stats.poisson.pmf(y, 3.0)
    law, dispersion = Counts(1.0), (1.0, 1e-9)

    def expected(values: np.ndarray) -> float:
        """Return the mean of values for free outcomes, and for clipped ones."""
        return float(probabilities @ values)

    free, cut = (expected(np.clip(each - 3.0, -4, 4)) for each in (y, np.minimum(y, 5)))
    found = law.clipped_mean(mean, mean, np.array([4.0]), dispersion, bound)
    assert found[0] == pytest.approx(part * cut + (1 - part) * free, abs=1e-3)
    for end in (4.0, 6.0):
        free, cut = (expected(np.maximum(each - end, 0)) for each in (y, np.minimum(y, 5)))
        over = law.bounded_excess(mean, dispersion, np.array([end]), bound)
        assert over[0] == pytest.approx(part * cut + (1 - part) * free, abs=1e-3)
