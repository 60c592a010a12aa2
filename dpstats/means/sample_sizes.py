from __future__ import annotations

import math
from typing import Any

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import refuse
from dpstats.release.estimator import PrivateEstimator

_MOST_ROWS = 2**32  # more cannot be added up exactly in 64 bits


def required_samples(
    estimator: PrivateEstimator[Any], n_features: int, target_error: float, std: Any = None
) -> int:
    """Return the smallest number of rows at which an estimator's plan promises a given error.

    Costs nothing: plans see no data.

    Parameters
    ----------
    estimator : PrivateEstimator
        Any estimator whose ``plan(n, d).expected_error()`` is in closed form; it is not changed.
        For `SparseMean` that error assumes the right selection: sizes at which signals of ``max_signal`` may be
        missed are skipped.
    n_features : int
        Number of columns.
    target_error : float
        Expected *squared* l2 error, in squared units of the data: the wanted bound on
        ``plan(n, n_features).expected_error(std)``. For a root mean square error of r in each of d
        columns it is ``d * r**2``.
    std : float or array of shape (n_features,), optional
        Standard deviation of the columns, for ``expected_error``. Default: the values that the plan assumes, which
        for `PrivateVariance` leave the sampling error out.

    Returns
    -------
    int
        A number n of rows whose plan meets ``target_error``, while the plan of n - 1 rows does not. If the fewest
        rows that the estimator accepts suffice, their number.

    Raises
    ------
    InvalidParameter
        If ``estimator`` is none, or 2^32 rows, the most that one fit adds up exactly, are not enough.

    Examples
    --------
    >>> from dpstats.means import AdaptiveMean, required_samples
    >>> mean = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0)
    >>> required_samples(mean, n_features=5, target_error=5 * 0.05**2)
    966
    """
    if not isinstance(estimator, PrivateEstimator):
        raise refuse("estimator", given=estimator, allowed="a dpstats estimator with a plan")
    d = check_integer("n_features", n_features, at_least=1)
    target = check_real("target_error", target_error, above=0)

    def error(n: int) -> float:
        plan = estimator.plan(n, d)
        return float(plan.expected_error(std)) if getattr(plan, "finds_signals", True) else math.inf

    fewest = enough = estimator._min_samples
    while error(enough) > target:
        if enough == _MOST_ROWS and error(enough) == math.inf:
            allowed = "have a max_signal that is found at 2^32 rows"
            raise refuse("estimator", given=estimator, allowed=allowed, remedy="Raise max_signal.")
        if enough == _MOST_ROWS:
            allowed = (
                f"at least {error(enough):.3g}, the expected squared l2 error of {type(estimator).__name__} "
                "at 2^32 rows"
            )
            raise refuse("target_error", given=target, allowed=allowed)
        enough = min(2 * enough, _MOST_ROWS)
    too_few = enough // 2
    while enough - too_few > 1 and enough > fewest:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if error(middle) > target else (too_few, middle)
    return enough
