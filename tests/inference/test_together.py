"""Intervals that cover together, and adjusted p-values."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.error_distributions import BONFERRONI, HOLM, SIDAK, AtOnce


def test_adjusted_pvalues() -> None:
    pvalues = np.array([0.01, 0.04, 0.03])
    np.testing.assert_allclose(SIDAK.adjust(pvalues), 1 - (1 - pvalues) ** 3)
    np.testing.assert_allclose(BONFERRONI.adjust(pvalues), [0.03, 0.12, 0.09])
    np.testing.assert_allclose(HOLM.adjust(pvalues), [0.03, 0.06, 0.06])
    assert SIDAK.adjust(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_levels_of_each_interval() -> None:
    assert BONFERRONI.each(0.95, 5) == HOLM.each(0.95, 5) == pytest.approx(0.99)
    assert SIDAK.each(0.95, 5) ** 5 == pytest.approx(0.95)


def test_what_covers_at_once_is_left_as_it_is() -> None:
    band = AtOnce("the band")
    assert band.each(0.95, 7) == 0.95 and band.adjust(np.array([0.2])).tolist() == [0.2]
    assert band.words == "the band"
