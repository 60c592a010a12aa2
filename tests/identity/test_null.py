"""Calibrations: their sizes, p-values, caches, and the law of the realised level."""

from __future__ import annotations

import numpy as np
import pytest
from every_test import FAST, NULL_ROWS
from scipy import stats
from sklearn.base import clone

from dpstats.errors import InvalidParameter
from dpstats.identity import RowDistanceTest, SpatialSignTest, null
from dpstats.identity.null import realised_level


def test_calibrations_are_cached_in_memory_and_on_disk(tmp_path, monkeypatch) -> None:
    calls = []
    simulated = null._simulated
    monkeypatch.setattr(null, "_simulated", lambda *a: calls.append(1) or simulated(*a))
    test = SpatialSignTest(random_state=0, epsilon=0.77, cache_dir=tmp_path, **FAST)
    first = test.fit(NULL_ROWS).threshold_
    assert SpatialSignTest(random_state=9, epsilon=0.77, mean=5.0, **FAST).fit(NULL_ROWS).threshold_ == first
    assert len(calls) == 1 and len(list(tmp_path.iterdir())) == 1
    null._memory.clear()
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 1
    # A damaged file is simulated again, to the same numbers.
    null._memory.clear()
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-8])
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 2
    assert np.load(file).shape == (199,)
    # Any public number that changes the law is part of the key.
    for other in ({"epsilon": 0.78}, {"radius": 1.0}, {"n_calibration": 399}):
        clone(test).set_params(**other).fit(NULL_ROWS)
    assert len(calls) == 5


def test_a_poisoned_file_serves_only_its_directory(tmp_path, monkeypatch) -> None:
    options = {"random_state": 0, "epsilon": 0.79, **FAST}
    plan = SpatialSignTest(**options).plan(60, 3)
    known = SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)
    file = next(tmp_path.iterdir())
    for poison in (np.nan, np.inf, -np.inf):
        null._memory.clear()
        np.save(file, np.where(np.arange(199) == 7, poison, known))
        assert np.array_equal(SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan), known)
    null._memory.clear()
    np.save(file, known + 1e6)
    assert SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)[0] > 1e5
    assert np.array_equal(SpatialSignTest(**options)._null_statistics(plan), known)


def test_a_known_calibration_checks_its_workers_too() -> None:
    test = SpatialSignTest(random_state=0, **FAST).fit(NULL_ROWS)
    for options, named in (({"n_jobs": "x"}, "n_jobs"), ({"progress": "x"}, "progress")):
        with pytest.raises(InvalidParameter, match=named):
            null.null_statistics("", 1, lambda size, generator: np.zeros(size), **options)
        with pytest.raises(InvalidParameter, match=named):
            clone(test).set_params(**options).power(1.0, 60, 3, n_simulations=1)
        fitted = clone(test).fit(NULL_ROWS).set_params(**options)
        with pytest.raises(InvalidParameter, match=named):
            fitted.distance_interval(n_simulations=1)


def test_calibration_depends_on_neither_threads_nor_the_user_seed(capsys) -> None:
    thresholds = []
    for jobs, seed in [(None, 1), (2, None), (-1, 3)]:
        null._memory.clear()
        test = RowDistanceTest(n_jobs=jobs, random_state=seed, progress=jobs == 2, **FAST)
        thresholds.append(test.fit(NULL_ROWS).threshold_)
    assert len(set(thresholds)) == 1
    assert "null distribution" in capsys.readouterr().err


def test_sizes_of_calibrations() -> None:
    assert null.calibration_size(0.05, None, 1e-5) == 9999
    assert null.calibration_size(0.05, None, 10.0) == 999
    assert null.calibration_size(0.03, None, 1.0) == 999
    # (B + 1) level is an integer, whatever the level.
    assert (
        null.calibration_size(0.007, None, 10.0) == 999 and null.calibration_size(0.0007, None, 10.0) == 9999
    )
    assert null.calibration_size(0.05, 19, 1.0) == 19
    with pytest.raises(InvalidParameter, match="n_calibration"):
        null.calibration_size(0.05, 18, 1.0)


def test_pvalue_counts_ties_against_rejecting() -> None:
    known = np.array([1.0, 2.0, 2.0, 3.0])
    assert [null.pvalue(known, x) for x in (0.0, 2.0, 2.5, 3.0, 9.0)] == [1.0, 0.8, 0.4, 0.4, 0.2]
    assert null.critical_value(np.arange(19.0), 0.05) == 18.0
    assert null.critical_value(np.arange(19.0), 0.1) == 17.0


def test_realised_level_is_the_beta_law() -> None:
    assert np.round(realised_level(9999, 0.05), 3).tolist() == [0.046, 0.054]
    rng = np.random.default_rng(3)
    # 2000 calibrations of B = 199 uniform numbers at level .1: P(new > k-th largest) = 1 - it.
    levels = 1 - np.sort(rng.random((2000, 199)), axis=1)[:, -20]
    assert stats.kstest(levels, stats.beta(20, 180).cdf).pvalue > 1e-4
    assert stats.kstest(levels, stats.beta(18, 182).cdf).pvalue < 1e-4
