"""Eigenvalues from variances along turned directions: the correction, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from dpstats.covariance import PrivatePCA
from dpstats.covariance.principal_components import find_eigenvalues, find_radius2, shrunk_kurtosis, shrunk_share


def test_the_correction_undoes_what_noise_and_sampling_turn() -> None:
    rng = np.random.default_rng(0)
    true, n, std = np.array([4.0, 2.0, 1.0, 0.5]), 2000, 0.05
    found, raw = [], []
    for _ in range(1500):
        sample = np.cov((rng.normal(size=(n, 4)) * np.sqrt(true)).T)
        noise = np.triu(rng.normal(size=(4, 4)) * std, 1)
        noise = noise + noise.T + np.diag(rng.normal(size=4) * std * np.sqrt(2))
        values, vectors = np.linalg.eigh(sample + noise)
        along = np.einsum("ij,ik,jk->k", sample, vectors, vectors)[::-1][:2]
        estimate, _ = find_eigenvalues(along, np.zeros(2), values[::-1], std, n)
        found.append(estimate)
        raw.append(along)
    spread = np.std(raw, axis=0) / np.sqrt(1500)
    # Three standard errors of an average: the correction is a tenth of a percent, and is seen.
    assert np.all(np.abs(np.mean(found, axis=0) - true[:2]) < 3.5 * spread)


def test_close_and_drowned_eigenvalues_are_not_identified() -> None:
    far = find_eigenvalues(np.array([4.0, 2.0]), np.full(2, 0.1), np.array([4.0, 2.0, 1.0]), 0.01, 10_000)
    assert np.all(np.isfinite(far[1])) and np.all(far[1] >= 0.1)
    close = find_eigenvalues(np.array([4.0, 4.0]), np.full(2, 0.1), np.array([4.0, 3.99, 1.0]), 0.1, 10_000)
    assert np.all(np.isinf(close[1]))
    drowned = find_eigenvalues(np.array([0.1]), np.array([0.1]), np.array([0.2, -0.3, -0.4]), 0.3, 10_000)
    assert np.isinf(drowned[1][0])
    alone = find_eigenvalues(np.array([2.0]), np.array([0.1]), np.array([2.0]), 0.01, 100)
    np.testing.assert_allclose(alone, [[2.0], [0.1]])


def test_the_share_of_shrunk_normal_scores() -> None:
    assert shrunk_share(3, 1e6) == pytest.approx(1.0)
    r2 = np.random.default_rng(0).chisquare(3, size=400_000)
    radius2 = float(chi2.ppf(0.9, 3))
    assert shrunk_share(3, radius2) == pytest.approx(np.minimum(r2, radius2).mean() / 3, rel=0.005)


def test_eigenvalues_of_a_sample_are_known_to_spread() -> None:
    # Lawley 1956: the eigenvalue of a sample exceeds its own by sum_j l_i l_j / (l_i - l_j) / n.
    true, n = np.array([4.0, 2.0, 1.0]), 1000
    found, _ = find_eigenvalues(true[:2], np.zeros(2), true, 0.0, n)
    gains = [4 * (2 / 2 + 1 / 3) / n, 2 * (-4 / 2 + 1 / 1) / n]
    np.testing.assert_allclose(true[:2] - found, gains, rtol=0.02)


def test_the_ball_is_found_from_the_variance_of_shrunk_scores() -> None:
    for k, radius2 in ((1, 8.0), (2, 13.0), (5, 30.0)):
        assert find_radius2(k, shrunk_share(k, radius2) / radius2) == pytest.approx(radius2)
    scores = np.clip(np.random.default_rng(1).normal(size=1_000_000), -2.0, 2.0)
    assert shrunk_kurtosis(1, 4.0) == pytest.approx((scores**4).mean() / scores.var() ** 2, rel=0.005)


@pytest.mark.parametrize(("heavy", "warned"), [(False, False), (True, True)])
def test_eigenvalues_of_heavy_tails_are_warned_of(heavy: bool, warned: bool) -> None:
    rng, n = np.random.default_rng(2), 40_000
    rows = rng.standard_t(5, (n, 4)) if heavy else rng.normal(size=(n, 4))
    fit = PrivatePCA(bounds=(-40, 40), random_state=0).fit(rows * [3.0, 1.0, 1.0, 1.0])
    notes = fit.estimates(estimand="eigenvalue").summary().notes
    assert any("heavier tails" in note for note in notes) is warned
    assert not any("heavier tails" in note for note in fit.summary().notes)


def test_eigenvalues_of_normal_rows_are_not_too_low() -> None:
    # The sizes that divide scores are too small by a fifth, so the ball leaves less of them: by 0.8% in all.
    rng = np.random.default_rng(3)
    fit = PrivatePCA(bounds=(-30, 30), epsilon=100.0, random_state=0)
    found = [
        fit.fit(rng.normal(size=(100_000, 4)) * np.sqrt([3.0, 1.0, 0.7, 0.5])).estimates(estimand="eigenvalue")
        for _ in range(8)
    ]
    mean = np.mean([each.estimate[0] for each in found])
    assert abs(mean - 3) < 3.5 * 3 * np.sqrt(2 / 100_000 / 8)
