"""A different order of columns and groups reorders the numbers of a fit, if the noise is negligible."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nets.cases import CASES, Given, fit
from tests.nets.numbers import Numbers, report

COLUMNS, GROUPS = (2, 0, 1), (3, 1, 0, 2)
EXCUSED = {
    "FilteringTest",
    "quantile",
    "quantile, any",
    "median",
    "distribution",
    "proportion",
    "statistic",
    "signed ranks",
    "Mann-Whitney",
}
"""One column; or no proof of privacy for so large an epsilon."""
ROOM = {"quantiles of groups": 0.03, "adaptive, variance": 3e-3}
"""Quantiles are drawn between two rows, and blocks are noisy means."""
ROUGHLY = {"gamma": 0.01}
"""Relative differences, if not 0.005: the clip of residuals is chosen from a grid, by released tails."""
SKIPPED = ("stage_means_", "groups_", "pairs", "anova.pvalue", "clip_width_")
"""Means of the first stages, labels of groups, pairs whose sign may change, and simulated p-values."""


def reorder(numbers: Numbers, is_line: bool) -> Numbers:
    """Return numbers with columns and groups in the other order."""
    if numbers.ndim == 1 and numbers.size == 12:
        return reorder(numbers.reshape(4, 3), is_line).ravel()
    for axis, size in enumerate(numbers.shape):
        if size == 3:
            numbers = np.take(numbers, COLUMNS, axis)
        elif size == 4:
            # The intercept stays the first parameter.
            numbers = np.take(numbers, (0, *(1 + j for j in COLUMNS)) if is_line else GROUPS, axis)
    return numbers


@pytest.mark.parametrize("name", [name for name in CASES if name not in EXCUSED])
def test_numbers_follow_their_columns_and_groups(name: str) -> None:
    make, asked = CASES[name]
    one, room = fit(name, epsilon=1e6), ROOM.get(name, 1e-3)
    other = report(make(Given(order=COLUMNS, groups=GROUPS, epsilon=1e6)), asked)
    assert one.keys() == other.keys()
    for place, numbers in one.items():
        if not place.startswith(SKIPPED):
            a, b = reorder(numbers, "params_" in one), other[place]
            if name in ("covariance", "correlation", "correlation, Pearson", "sparse") and a.ndim == 1:
                # Of pairs of columns, or of those that are chosen.
                a, b = np.sort(a), np.sort(b)
            if place == "support_":
                a = np.sort([COLUMNS.index(int(j)) for j in one[place]])
            assert np.allclose(a, b, rtol=ROUGHLY.get(name, 5e-3), atol=room, equal_nan=True), (place, a, b)
