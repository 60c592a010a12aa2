"""Sizes of calibrations, p-values, and the law of the realised level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.identity.calibration import calibration_size, critical_value, pvalue, realised_level


def test_sizes_of_calibrations() -> None:
    assert calibration_size(0.05, None, 1e-5) == 9999
    assert calibration_size(0.05, None, 10.0) == 999
    assert calibration_size(0.03, None, 1.0) == 999
    # (B + 1) level is an integer, whatever the level.
    assert calibration_size(0.007, None, 10.0) == 999 and calibration_size(0.0007, None, 10.0) == 9999
    assert calibration_size(0.05, 19, 1.0) == 19
    with pytest.raises(InvalidParameter, match="n_calibration"):
        calibration_size(0.05, 18, 1.0)


def test_pvalue_counts_ties_against_rejecting() -> None:
    known = np.array([1.0, 2.0, 2.0, 3.0])
    assert [pvalue(known, x) for x in (0.0, 2.0, 2.5, 3.0, 9.0)] == [1.0, 0.8, 0.4, 0.4, 0.2]
    assert critical_value(np.arange(19.0), 0.05) == 18.0
    assert critical_value(np.arange(19.0), 0.1) == 17.0


def test_realised_level_is_the_beta_law() -> None:
    assert np.round(realised_level(9999, 0.05), 3).tolist() == [0.046, 0.054]
    rng = np.random.default_rng(3)
    # 2000 calibrations of B = 199 uniform numbers at level .1: P(new > k-th largest) = 1 - it.
    levels = 1 - np.sort(rng.random((2000, 199)), axis=1)[:, -20]
    assert stats.kstest(levels, stats.beta(20, 180).cdf).pvalue > 1e-4
    assert stats.kstest(levels, stats.beta(18, 182).cdf).pvalue < 1e-4
