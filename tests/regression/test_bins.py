"""Bins of numbers that are not negative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression.passes import Bins


@pytest.mark.parametrize("ends", [3 * 2.0 ** np.arange(-6, 5), 2.0 ** (np.arange(22) / 2 - 6.5), 1.1 ** np.arange(30)])
def test_bins_by_exponents_are_those_of_a_search(ends: Any) -> None:
    ends = ends**2
    edges = np.concatenate([ends, np.nextafter(ends, 0.0), np.nextafter(ends, np.inf)])
    values = np.concatenate([edges, np.random.default_rng(0).exponential(1e3, 1000), [0.0, 5e-324, 1e300]])
    assert np.array_equal(Bins(ends).find(values), np.searchsorted(ends, values))
