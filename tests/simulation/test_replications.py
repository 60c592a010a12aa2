"""Replications: seeds of their own, nothing kept from one to the next, and failures that are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.covariance import EmpiricalCovariance
from sklearn.linear_model import LinearRegression

from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study
from dpstats.simulation import study as replications
from tests.simulation.rows import ESTIMATOR


def mean_of(X: np.ndarray, rng: np.random.Generator, power: int = 1) -> np.ndarray:
    return (X**power).mean(axis=0)


class Remembers(BaseEstimator):
    """Its estimate is the number of fits so far."""

    def fit(self, X: np.ndarray, y: None = None) -> Remembers:
        self.fits_ = getattr(self, "fits_", 0) + 1
        self.mean_ = np.full(X.shape[1], float(self.fits_))
        return self


class RemembersInPrivate(ClippedMean):
    def fit(self, X: np.ndarray, y: None = None) -> RemembersInPrivate:
        self.fits_ = getattr(self, "fits_", 0) + 1
        super().fit(X)
        self.mean_ = np.full(X.shape[1], float(self.fits_))
        return self


@pytest.mark.parametrize("estimator", [Remembers(), RemembersInPrivate(clip=1.0)], ids=["sklearn's", "ours"])
def test_nothing_is_kept_from_one_replication_to_the_next(estimator: Any) -> None:
    results = Study(Gaussian(), estimator, {"n": [5], "d": [1]}, 20).run()
    assert results.cells[0].losses["squared_error"].tolist() == [1.0] * 20


def test_the_packages_own_are_not_cloned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clones: list[Any] = []
    clone = replications.clone
    monkeypatch.setattr(replications, "clone", lambda estimator: clones.append(estimator) or clone(estimator))
    Study(Gaussian(), ESTIMATOR, {"n": [5], "d": [1]}, 50).run()
    Study(Gaussian(), Adapter(mean_of), {"n": [5], "d": [1]}, 50).run()
    assert len(clones) < 20


def test_seeds_are_those_of_spawn() -> None:
    sampler = Gaussian()
    study = Study(sampler, EmpiricalCovariance(), {"n": [7, 9], "d": [2]}, 3, seed=5)
    child = np.random.SeedSequence(5).spawn(2)[1].spawn(3)[2]
    X = sampler(9, 2, np.random.default_rng(child))
    expected = float(np.sum(X.mean(axis=0) ** 2))
    assert study.run().cells[1].losses["squared_error"][2] == pytest.approx(expected, rel=1e-12)


def fragile(X: np.ndarray, rng: np.random.Generator, depth: int) -> np.ndarray:
    if depth == 2 or (depth == 1 and rng.random() < 0.5):
        raise ValueError(f"too deep: {depth}")
    return X.mean(axis=0)


def test_cells_that_raise_are_recorded_and_the_study_goes_on() -> None:
    study = Study(Gaussian(), Adapter(fragile, depth=0), {"n": [10], "d": [1], "depth": [0, 1, 2]}, 40)
    results = study.run()
    assert [cell.failed for cell in results.cells][0::2] == [0, 40]
    assert 8 < results.cells[1].failed < 32  # 4 standard deviations of 20
    assert results.cells[1].losses["squared_error"].size == 40 - results.cells[1].failed
    assert results.cells[2].failures == {"ValueError: too deep: 2": 40}
    assert np.isnan(results.mean()[2]) and np.isfinite(results.mean()[:2]).all()
    assert "Cell 3 failed in 40 of 40 replications: ValueError: too deep: 2" in str(results)
    assert len(results.failed_cells) == 2


def test_a_cell_whose_parameters_are_refused_fails_alone() -> None:
    results = Study(Rademacher(), ESTIMATOR, {"n": [20], "d": [1], "epsilon": [1.0, -1.0]}, 5).run(n_jobs=2)
    assert [cell.failed for cell in results.cells] == [0, 5]
    assert "epsilon must be" in next(iter(results.cells[1].failures))
    nan = Study(Rademacher(), Adapter(nothing, keep=True), {"n": [5], "d": [1], "keep": [True, False]}, 2).run()
    assert nan.cells[1].failures == {"DPStatsError: squared_error is nan": 2} and not nan.cells[0].failures


def nothing(X: np.ndarray, rng: np.random.Generator, keep: bool) -> np.ndarray:
    return X.mean(axis=0) if keep else np.array([np.nan])


def test_scikit_learns_estimators_and_pairs_of_x_and_y() -> None:
    results = Study(Gaussian(mean=2.0), EmpiricalCovariance(), {"n": [100], "d": [4]}, 300).run()
    assert results.mean()[0] == pytest.approx(4 / 100, rel=0.25)  # 5 standard errors
    results = Study(Line(), LinearRegression(), {"n": [100], "d": [2]}, 200).run()
    assert results.mean()[0] == pytest.approx(2 / 100, rel=0.4)


class Line:
    def __call__(self, n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, d))
        return X, X @ self.true_mean(d) + rng.normal(size=n)

    def true_mean(self, d: int) -> np.ndarray:
        return np.arange(1.0, d + 1)


def endless(X: np.ndarray, rng: np.random.Generator, keep: bool) -> np.ndarray:
    return X.mean(axis=0) if keep else np.array([np.inf])


def test_an_infinite_loss_is_no_result() -> None:
    grid = {"n": [5], "d": [1], "keep": [True, False]}
    found = Study(Rademacher(), Adapter(endless, keep=True), grid, 2).run()
    assert found.cells[1].failures == {"DPStatsError: squared_error is inf": 2} and not found.cells[0].failures
