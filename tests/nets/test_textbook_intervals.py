"""Without noise, intervals of counts are those of textbooks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from dpstats.tables import ContingencyTable


@pytest.mark.parametrize("counts", [(3, 17, 30), (1, 2), (0, 5, 1, 94), (400, 1)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_cells_have_clopper_and_pearsons_intervals(counts: tuple[int, ...], level: float) -> None:
    codes = np.repeat(np.arange(len(counts)), counts)
    table = ContingencyTable(levels=[list(range(len(counts)))], epsilon=1e3, random_state=0).fit(codes)
    found = table.confidence_interval(level)
    for count, low, high in zip(counts, found.low, found.high, strict=True):
        exact = binomtest(count, codes.size).proportion_ci(level, "exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)
