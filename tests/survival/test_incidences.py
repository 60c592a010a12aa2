"""Cumulative incidences: they add up, and their variances are those of samples and of noise."""

from __future__ import annotations

import numpy as np

from dpstats.survival.curves import Curves
from dpstats.survival.table import cumulative_incidence
from tests.survival.test_curves import M, cells_of, exact


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times, left = rng.geometric(0.2, n), rng.geometric(0.05, n)
    cause = np.where(rng.random(n) < 0.3, 2, 1)
    return np.minimum(times, left).astype(float), np.where(times <= left, cause, 0)


def test_incidences_and_survival_add_up_to_one() -> None:
    curves = exact(cells_of(*rows(500, 0), n_causes=2), n_causes=2)
    found = sum(cumulative_incidence(curves, cause)[0] for cause in (0, 1))
    assert np.allclose(found + curves.survival, 1)


def test_the_incidence_of_a_single_cause_has_the_variance_of_the_survival() -> None:
    times, codes = rows(500, 1)
    curves = exact(cells_of(times, np.minimum(codes, 1)))
    found, sampling, _ = cumulative_incidence(curves, 0)
    assert np.allclose(found, 1 - curves.survival)
    # The binomial form of Greenwood's increments.
    assert np.allclose(sampling, curves.survival**2 * np.cumsum(curves.increments, axis=1), rtol=1e-9)


def test_the_variances_are_those_of_samples_and_of_noise() -> None:
    each = [exact(cells_of(*rows(400, seed), n_causes=2), n_causes=2) for seed in range(500)]
    found = np.array([cumulative_incidence(curves, 1)[0][0] for curves in each])
    stated = np.mean([cumulative_incidence(curves, 1)[1][0] for curves in each], axis=0)
    # Variances of 500 samples have standard errors of 6%.
    assert np.allclose(found.var(axis=0), stated, rtol=0.3)
    cells = cells_of(*rows(4000, 7), n_causes=2)
    noise = np.eye(cells.shape[1]) * 9.0
    drawn = Curves(cells + 3 * np.random.default_rng(0).normal(size=(3000, cells.shape[1])), M, 2, noise)
    of_noise = cumulative_incidence(Curves(cells, M, 2, noise), 1)[2][0]
    assert np.allclose(cumulative_incidence(drawn, 1)[0].var(axis=0), of_noise, rtol=0.2)


def test_bins_beyond_the_usable_range_add_nothing() -> None:
    cells = cells_of(*rows(400, 3), n_causes=2)
    curves = Curves(cells, M, 2, np.eye(cells.shape[1]) * 400.0)
    usable = curves.usable[0]
    assert 0 < usable.sum() < M
    found, sampling, noise = (part[0] for part in cumulative_incidence(curves, 0))
    assert np.all(np.isfinite([found, sampling, noise]))
    last = usable.sum() - 1
    for part in (found, sampling, noise):
        np.testing.assert_allclose(part[last:], part[last])
