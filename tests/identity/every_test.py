"""Every test in its kinds, and rows near and far from the null, for what all tests share."""

from __future__ import annotations

import numpy as np

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.textbook import StagedInnerProductTest

NULL_ROWS = np.random.default_rng(0).standard_normal((60, 3))
FAR_ROWS = NULL_ROWS + 1.5
FAST = {"n_calibration": 199}
KINDS = [
    RowDistanceTest,
    SpatialSignTest,
    LipschitzExtensionTest,
    FilteringTest,
    lambda **kw: LipschitzExtensionTest(constraint="inner_product", **kw),
    StagedInnerProductTest,
]
PURE = KINDS[:3]
