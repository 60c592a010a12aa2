"""Averages over observed rows: dropped rows count nowhere, and intervals cover whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.means.moments import CUBES, FOURTHS, MEAN, ROWS, SQUARES, ObservedSums
from dpstats.means.ratio import RatioErrors
from dpstats.means.variance import observed_errors

X = np.random.default_rng(0).normal([1.0, -2.0], [1.0, 1.5], (3000, 2))
GONE = np.arange(3000) % 5 == 0
HOLES = np.where(GONE[:, None] & (np.arange(2) == 0), np.nan, X)
MANY = {"epsilon": 1e4, "bounds": (-9, 9), "random_state": 0}
"""Almost no noise."""


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("option", [{}, {"noise": "isotropic"}, {"clipped_share": True}])
def test_the_mean_is_of_the_observed_rows(option: dict[str, Any], delta: float) -> None:
    dropped = ClippedMean(missing="drop", delta=delta, **option, **MANY).fit(HOLES)
    known = ClippedMean(delta=delta, **option, **MANY).fit(X[~GONE])
    np.testing.assert_allclose(dropped.mean_, known.mean_, atol=2e-4)
    np.testing.assert_allclose(dropped.std_, known.std_, atol=2e-3)
    np.testing.assert_allclose(dropped.confidence_interval(), known.confidence_interval(), atol=2e-3)
    assert dropped.rows_ == pytest.approx(2400, abs=6 * dropped.rows_noise_std_ + 1e-9)
    # The planted fault: a dropped row counted as the center.
    centered = ClippedMean(missing="center", delta=delta, **option, **MANY).fit(HOLES)
    assert np.max(np.abs(centered.mean_ - known.mean_)) > 0.1


@pytest.mark.parametrize("options", [{}, {"interval": "bounded"}, {"about": "center"}, {"delta": 1e-6}])
def test_the_variance_is_of_the_observed_rows(options: dict[str, Any]) -> None:
    dropped = PrivateVariance(missing="drop", **options, **MANY).fit(HOLES)
    known = PrivateVariance(**options, **MANY).fit(X[~GONE])
    np.testing.assert_allclose(dropped.variance_, known.variance_, rtol=5e-3)
    np.testing.assert_allclose(dropped.confidence_interval(), known.confidence_interval(), rtol=0.05)


def test_a_ball_drops_rows() -> None:
    options = {"clip": 12.0, "clip_norm": "l2", "delta": 1e-6, "epsilon": 1e3, "random_state": 0}
    dropped = ClippedMean(missing="drop", **options).fit(HOLES)
    np.testing.assert_allclose(dropped.mean_, X[~GONE].mean(axis=0), atol=5e-3)
    low, high = dropped.confidence_interval()
    assert np.all((low < X[~GONE].mean(axis=0)) & (X[~GONE].mean(axis=0) < high))


def test_options_without_a_ratio_are_refused_by_name() -> None:
    for options in ({"std": 1.0}, {"std": None}, {"clip_norm": "l2"}):
        with pytest.raises(InvalidParameter, match="missing='drop'"):
            ClippedMean(clip=1.0, missing="drop", **options).plan(100, 2)
    with pytest.raises(InvalidParameter, match="interval must"):
        PrivateVariance(clip=1.0, missing="drop", interval="normal").plan(100, 2)


@pytest.mark.parametrize("kind", [ClippedMean, PrivateVariance])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_observed_row_leaves_the_bounds(kind: type, delta: float) -> None:
    made = kind(bounds=(0, 10), missing="drop", delta=delta, random_state=3).fit(np.full((50, 1), np.nan))
    low, high = made.confidence_interval()
    widest = 10.0 if kind is ClippedMean else 25.0
    assert low[0] <= 0.02 * widest and high[0] >= 0.98 * widest
    assert "cannot be distinguished from 0" in " ".join(str(made.summary()).split())


def test_nothing_is_more_noisy_for_the_count() -> None:
    for delta in (0.0, 1e-6):
        for kind, options in ((ClippedMean, {}), (PrivateVariance, {})):
            plain = kind(clip=1.0, delta=delta, **options).plan(100, 3).noise(SQUARES).std
            counted = kind(clip=1.0, delta=delta, missing="drop", **options).plan(100, 3).noise(SQUARES).std
            assert counted == pytest.approx(plain, rel=1e-6)


# Coverage: 2,000 releases a cell, a standard error of 0.005.

RUNS = 2000
LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: np.clip(rng.normal(0.1, 0.25, shape), -1, 1),
    "exponential": lambda rng, shape: np.clip(rng.exponential(0.25, shape) - 1, -1, 1),
    "Bernoulli(.1)": lambda rng, shape: 2.0 * (rng.random(shape) < 0.1) - 1,
}


def observed(rng: np.random.Generator, law: str, shape: tuple[int, ...], share: float) -> Any:
    """Return rows and which of them are observed: more of the large ones are missing."""
    x = LAWS[law](rng, shape)
    odds = share * np.exp(2.0 * x)
    return x, rng.random(shape) >= np.minimum(odds, 0.95)


def released(plan: Any, x: np.ndarray, there: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what releases of many data sets would say, one of each row of ``x``."""
    found = {ROWS: there.mean(axis=-1)}
    for power, name in enumerate((MEAN, SQUARES, CUBES, FOURTHS), 1):
        less = 0.0 if power % 2 else 0.5
        found[name] = np.where(there, x**power - less, 0.0).mean(axis=-1)
    values = {}
    for stage in plan.stages:
        for block in stage.blocks:
            noise = plan.noise(block.name)
            draw = rng.laplace if noise.law == "laplace" else rng.normal
            values[block.name] = found[block.name] + draw(0.0, float(np.max(noise.scale)), len(x))
    return values


@pytest.mark.parametrize("share", [0.08, 0.5])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n", [40, 400])
def test_intervals_cover(n: int, delta: float, law: str, share: float) -> None:
    rng = np.random.default_rng([n, int(delta > 0), int(100 * share)])
    x, there = observed(rng, law, (400_000,), share)
    mean, variance = x[there].mean(), x[there].var()
    x, there = observed(rng, law, (RUNS, n), share)
    for kind in (ClippedMean, PrivateVariance):
        plan = kind(clip=1.0, delta=delta, missing="drop").plan(n, 1)
        sums = ObservedSums.of(released(plan, x, there, rng), plan)
        if kind is ClippedMean:
            truth, errors = mean, RatioErrors(sums.ratio(), 0.0, 1.0, -np.ones(1), np.ones(1))
        else:
            truth, errors = variance, observed_errors(sums, plan)[0]
        covered = (np.minimum(*errors.tails(np.full(RUNS, truth))) >= 0.025).mean()
        # Four standard errors, below the smallest coverage of 4,000 releases (0.944).
        assert covered > 0.944 - 4 * 0.005
        if kind is ClippedMean and law == "exponential" and share == 0.5 and n == 400:
            # The planted fault: the number of observed rows is taken for public, and n for it.
            wrong = ObservedSums.of({**released(plan, x, there, rng), ROWS: np.ones(RUNS)}, plan)
            tails = RatioErrors(wrong.ratio(), 0.0, 1.0, -np.ones(1), np.ones(1)).tails(np.full(RUNS, truth))
            assert (np.minimum(*tails) >= 0.025).mean() < 0.93
