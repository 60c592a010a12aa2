"""A single function for a private identity test, chosen by public facts."""

from __future__ import annotations

from typing import Any

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_real
from dpstats.data.schema import Schema
from dpstats.errors import refuse_data
from dpstats.identity.by_row_distance import RowDistanceTest
from dpstats.identity.by_spatial_sign import SpatialSignTest
from dpstats.identity.result import TestResult

SMALL_DIMENSION = 7
"""Largest number of columns for the spatial sign, up to which it is better or similar.

See validation/results/identity_directions.md."""

LARGEST_ROWS = 10_000
LARGEST_WORK = 10**10
"""Largest n^2 d. Above it, calibrating the row-distance test takes more than a few minutes."""


SMALL_BUDGET = 30.0
"""Least n epsilon for the row distance. Below it, no distance gives a power of 0.999, and the spatial sign has more.

Attainable powers were simulated for d = 8 to 100 (tests/identity/test_choice.py). At n epsilon = 10, 20 and 30 the row
distance has 0.66 to 0.81, 0.99 and 0.999. The spatial sign has 0.93 to 0.96, 0.998 and 1.000."""


def automatic_test(n: int, d: int, epsilon: float) -> type[RowDistanceTest] | type[SpatialSignTest]:
    """Return the test that `identity_test` runs at this public shape and epsilon."""
    if d <= SMALL_DIMENSION or n > LARGEST_ROWS or n * n * d > LARGEST_WORK or n * epsilon < SMALL_BUDGET:
        return SpatialSignTest
    return RowDistanceTest


def identity_test(
    X: Any,
    mean: Any = 0.0,
    cov: Any = None,
    epsilon: float = 1.0,
    *,
    null: str = "normal",
    level: float = 0.05,
    n_calibration: int | None = None,
    missing: str = "error",
    missing_codes: Any = None,
    cache_dir: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = None,
    budget: Any = None,
) -> TestResult:
    """Test privately whether the rows of ``X`` are N(mean, cov), both public, or independent signs with that mean.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Private rows. Their number is public. If rows were selected by a private label, the number of selected rows is
        private, and this test does not protect it.
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Covariance matrix, or variances; None is the identity.
    epsilon : float, default=1.0
        Privacy parameter of a pure guarantee, for neighboring datasets that differ in one row.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns.
    level, n_calibration, missing, missing_codes, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

    Returns
    -------
    TestResult
        Result of `RowDistanceTest` if d > 7, n <= 10,000, n^2 d <= 1e10 and n epsilon >= 30. Otherwise the result of
        `SpatialSignTest`. These are public facts.

    Notes
    -----
    The null hypothesis is the whole distribution of the rows. For the mean alone, use
    ``ClippedMean(...).fit(X).test(value=...)``. If one column may differ strongly and the others do not,
    `LipschitzExtensionTest` with ``radius=0.4`` detects smaller distances than both tests.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import identity_test
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    >>> identity_test(X, epsilon=1.0, n_calibration=199, random_state=0).reject
    True
    """
    source = open_source(X)
    shape = source.size(Schema().resolve(source.names))
    if shape is None:
        raise refuse_data(
            "X",
            allowed="a table in memory, whose number of rows chooses the test",
            remedy="Or fit a test itself.",
        )
    test = automatic_test(*shape, check_real("epsilon", epsilon, above=0))(
        mean=mean,
        cov=cov,
        null=null,
        epsilon=epsilon,
        level=level,
        n_calibration=n_calibration,
        missing=missing,
        missing_codes=missing_codes,
        cache_dir=cache_dir,
        n_jobs=n_jobs,
        progress=progress,
        random_state=random_state,
        budget=budget,
    )
    result: TestResult = test.fit(source).result_
    return result
