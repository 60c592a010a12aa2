"""Bins of numbers that are not negative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression.passes import UNCOMPILED, Bins, CompiledPasses, Passes


@pytest.mark.parametrize("ends", [3 * 2.0 ** np.arange(-6, 5), 2.0 ** (np.arange(22) / 2 - 6.5), 1.1 ** np.arange(30)])
def test_bins_by_exponents_are_those_of_a_search(ends: Any) -> None:
    ends = ends**2
    edges = np.concatenate([ends, np.nextafter(ends, 0.0), np.nextafter(ends, np.inf)])
    values = np.concatenate([edges, np.random.default_rng(0).exponential(1e3, 1000), [0.0, 5e-324, 1e300, np.inf]])
    assert np.array_equal(Bins(ends).find(values), np.searchsorted(ends, values))


def test_loops_put_the_largest_numbers_into_the_last_bin_too() -> None:
    # Such a number times the unit is infinite.
    bins, values = Bins(2.0 ** np.arange(-24.0, 1.0)), np.array([0.0, 1e300, 1.7e308, np.inf])
    for found in (Passes(), CompiledPasses(UNCOMPILED)):
        with np.errstate(over="ignore"):
            counts, left = found.count(values, bins)
        assert counts[[0, -1]].tolist() == [1, 3] and not left.size
