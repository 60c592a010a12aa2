"""The analysis of variance: its level under equal means, its power, and what it is without noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.groups.comparisons import draw, null_statistics, wald_statistic
from dpstats.means.ratio import Noise, Ratio

NOISE = Noise(8.45, 8.9, 8.0, 8.45, 8.9, 0.77 * 8.9**2)
LAPLACE = Noise(4.0, 4.9, 4.9, 4.0, 4.9, 8.0, laplace=2.0)
LITTLE = Noise(1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 0.0)


def released(groups: list[np.ndarray], noise: Noise, rng: np.random.Generator) -> Ratio:
    """Return releases of groups of shape (runs, n) each."""
    T = np.stack([rows.sum(axis=1) for rows in groups], axis=1)[..., None]
    Q = np.stack([(rows**2).sum(axis=1) for rows in groups], axis=1)[..., None]
    n = np.array([rows.shape[1] for rows in groups])[:, None]
    off_T, off_N, off_Q = draw(noise, T.shape, rng)
    T, N = T + off_T, n + off_N
    return Ratio(T, N, Q + off_Q, T, N, noise)


def rejected(ratio: Ratio, rng: np.random.Generator, simulations: int = 199) -> float:
    runs = [ratio[run] for run in range(len(ratio.T))]
    pvalues = [
        (1 + (null_statistics(one, simulations, rng) >= wald_statistic(one)[0]).sum()) / (1 + simulations)
        for one in runs
    ]
    return float(np.mean(np.array(pvalues) <= 0.05))


def test_without_noise_it_is_walds_test() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(m, 0.2, (1, 5000)) for m in (0.0, 0.01, 0.02)]
    found, mean = wald_statistic(released(groups, LITTLE, rng))
    rows = np.concatenate(groups, axis=1).ravel()
    F = stats.f_oneway(*(one.ravel() for one in groups)).statistic
    assert mean[0, 0, 0] == pytest.approx(rows.mean()) and found[0, 0] == pytest.approx(2 * F, rel=0.05)


# 600 runs of each: a standard error of .0089; levels above .085 or powers below are 4 of them off.
@pytest.mark.parametrize("noise", [NOISE, LAPLACE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("sizes", [(50, 50), (200, 100, 50, 25, 12, 6, 3), (12,) * 20])
@pytest.mark.parametrize("law", ["normal", "rare"])
def test_the_level(noise: Noise, sizes: tuple[int, ...], law: str) -> None:
    rng = np.random.default_rng(len(sizes))

    def rows(n: int) -> np.ndarray:
        return rng.normal(0.1, 0.25, (600, n)) if law == "normal" else 2.0 * (rng.random((600, n)) < 0.05) - 1

    assert rejected(released([rows(n) for n in sizes], noise, rng), rng) < 0.085


def test_the_power() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(m, 0.25, (300, 400)) for m in (0.0, 0.0, 0.2)]
    assert rejected(released(groups, NOISE, rng), rng) > 0.95


def test_weights_by_noisy_counts_would_be_noticed() -> None:
    # A common mean that errors in the counts draw towards 0 is wrong for all groups alike: a mean at -.8 and counts of
    # the size of their noise show it.
    rng = np.random.default_rng(6)
    large = Noise(*(5 * part for part in (8.45, 8.9, 8.0, 8.45, 8.9)), 25 * 0.77 * 8.9**2)
    groups = [2.0 * (rng.random((600, 62)) < 0.1) - 1 for _ in range(8)]
    ratio = released(groups, large, rng)
    assert rejected(ratio, rng) < 0.085
    spread = large.total**2 + large.count**2
    weighted = (ratio.T * ratio.N / spread).sum(axis=1) / (ratio.N**2 / spread).sum(axis=1)
    assert abs(weighted.mean() + 0.8) > 0.15 > abs(wald_statistic(ratio)[1].mean() + 0.8)
