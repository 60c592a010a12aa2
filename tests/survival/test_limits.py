"""Confidence limits: score limits, bands, and times at which limits cross."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.error_distributions import normal_laplace_quantile
from dpstats.survival import curves as limits_module
from dpstats.survival.curves import (
    N_DRAWS,
    Curves,
    critical_values,
    crossing_times,
    limits,
    monotone,
    normal_critical,
    score_limits,
    time_limits,
)
from tests.survival.test_curves import M, cells_of, discrete_rows

EDGES = np.arange(M + 1.0)


def curves_of(n: int, noise_std: float, releases: int = 1, seed: int = 0) -> Curves:
    times, events = discrete_rows(n, seed)
    size = 2 * M + 1
    noise = np.eye(size) * noise_std**2
    drawn = noise_std * np.random.default_rng(seed).normal(size=(releases, size))
    return Curves(cells_of(times, events) + drawn, M, 1, noise)


def test_score_limits_solve_their_equation() -> None:
    rng = np.random.default_rng(0)
    estimate, size = rng.uniform(0, 1, 200), rng.uniform(5, 500, 200)
    noise, z = rng.uniform(0, 0.01, 200), rng.uniform(1, 3, 200)
    low, high = score_limits(estimate, size, noise, z)
    for end in (low, high):
        inside = (end > 0) & (end < 1)
        right = z**2 * (end * (1 - end) / size + noise)
        assert np.allclose(((estimate - end) ** 2 - right)[inside], 0, atol=1e-12)
    assert ((low <= estimate) & (estimate <= high)).all()


def test_without_noise_or_censoring_limits_are_wilsons() -> None:
    n = 100
    cells = np.zeros((1, 2 * M + 1))
    cells[0, :M], cells[0, -1] = 5, n - 5 * M
    low, high = limits(Curves(cells, M, 1, np.zeros((2 * M + 1,) * 2)), np.array(1.96))
    from statsmodels.stats.proportion import proportion_confint

    expected = [proportion_confint(n - 5 * j, n, 0.05, "wilson") for j in range(1, M + 1)]
    assert np.allclose(np.column_stack([low[0], high[0]]), expected, atol=2e-4)


def test_the_lower_limit_counts_an_event_that_few_rows_at_risk_had_not() -> None:
    # 95 of 100 rows leave in the first bin, and the other five have no event before the horizon.
    cells = np.zeros((1, 2 * M + 1))
    cells[0, M], cells[0, -1] = 94, 6
    curves = Curves(cells, M, 1, np.zeros((2 * M + 1,) * 2))
    low, high = limits(curves, np.array(1.96))
    assert (high == 1).all()
    # Clopper and Pearson's limit for 0 of 6 is 0.54; Greenwood's variance is 0.
    assert (low < 0.7).all() and (low > 0.5).all()


def test_late_edges_with_few_at_risk_are_covered_without_noise() -> None:
    rng = np.random.default_rng(0)
    missed, found = 0, 0
    for _ in range(400):
        times, left = rng.geometric(0.06, 60), rng.geometric(0.3, 60)
        cells = cells_of(np.minimum(times, left).astype(float), (times <= left).astype(np.int64))
        curves = Curves(cells, M, 1, np.zeros((2 * M + 1,) * 2))
        last = int(curves.n_usable[0])
        low, high = limits(curves, np.array(1.96))
        missed += not low[0, last - 1] <= 0.94**last <= high[0, last - 1]
        found += last < M
    # Greenwood's variance alone misses in more than 40 of 400. A level of 0.05 exceeds 34 in one of 500 runs.
    assert missed <= 34 and found > 200


def test_beyond_the_usable_range_limits_are_zero_and_carried() -> None:
    curves = curves_of(150, 12.0)
    last = int(curves.n_usable[0])
    assert 0 < last < M
    low, high = limits(curves, np.array(1.96))
    assert (low[0, last:] == 0).all() and (high[0, last:] == high[0, last - 1]).all()
    nothing = curves_of(10, 50.0)
    assert nothing.n_usable[0] == 0
    low, high = limits(nothing, np.array(1.96))
    assert (low == 0).all() and (high == 1).all()


def test_a_band_is_wider_than_pointwise_limits_and_covers_together() -> None:
    releases = 300
    draws = np.random.default_rng(1).normal(size=(2000, 2 * M + 1)) * 4.0
    found, apart = 0, 0
    for seed in range(releases):
        rng = np.random.default_rng(1000 + seed)
        times, left = rng.geometric(0.15, 500), rng.geometric(0.08, 500)
        rows = np.minimum(times, left).astype(float), (times <= left).astype(np.int64)
        cells = cells_of(*rows) + 4.0 * rng.normal(size=(1, 2 * M + 1))
        curves = Curves(cells, M, 1, np.eye(2 * M + 1) * 16.0)
        pointwise, band = critical_values(curves, draws, 0.95)
        assert (pointwise >= normal_critical(0.95)).all() and band[0, 0] > pointwise.max()
        truth = 0.85 ** np.arange(1, M + 1)
        for critical, together in ((band, True), (np.full((1, 1), 1.96), False)):
            low, high = monotone(*limits(curves, critical))
            inside = bool(((low <= truth) & (truth <= high)).all())
            found, apart = found + (inside and together), apart + (inside and not together)
    # 300 datasets: a band that covers in 95% of them is below 0.90 in fewer than 2e-4 of runs. Limits with the critical
    # value of one time cover the whole curve much less often.
    assert found / releases > 0.90 and apart / releases < 0.88


def test_crossing_times_are_on_a_line_or_outward_to_an_edge() -> None:
    limit = np.array([[0.9, 0.6, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2]])
    assert crossing_times(limit, EDGES, 0.5, discrete=False) == pytest.approx(2.5)
    assert crossing_times(limit, EDGES, 0.5, discrete=True) == 3.0
    assert crossing_times(limit, EDGES, 0.95, discrete=False) == pytest.approx(0.5)
    assert crossing_times(limit, EDGES, 0.1, discrete=False) == np.inf


def test_the_interval_of_a_median_ends_with_the_usable_range_and_may_be_infinite() -> None:
    curves = curves_of(150, 12.0)
    last = int(curves.n_usable[0])
    low, high = limits(curves, np.array(1.96))
    first, end = time_limits(curves, low, high, EDGES, 0.99, False)
    assert first[0] <= EDGES[last] and end[0] == np.inf


@pytest.mark.parametrize("noise", [0.0, 0.6, 1.0])
def test_quantiles_beyond_the_draws_are_not_below_the_exact_ones(noise: float) -> None:
    # Normal and Laplace errors of variance 1 together, of which this part is Laplace.
    rng = np.random.default_rng(0)
    drawn = np.sqrt(1 - noise) * rng.normal(size=(N_DRAWS, 300))
    drawn += rng.laplace(scale=np.sqrt(noise / 2), size=drawn.shape)
    ordered = np.sort(np.abs(drawn), axis=0)
    for tail in (1e-3, 1e-5, 1e-8):
        exact = normal_laplace_quantile(tail / 2, float(np.sqrt(1 - noise)), float(np.sqrt(noise / 2)))
        found = limits_module._quantiles(ordered, np.array([1 - tail]))[0]
        # On average over the draws; a normal quantile is 5.7 at 1e-8, and one of Laplace noise 13.
        assert found.mean() > exact * (0.97 if tail < 1e-4 else 0.99)
        assert found.mean() < exact * 1.8
