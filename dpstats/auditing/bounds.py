"""What counts prove about epsilon: Clopper-Pearson bounds on the two probabilities of an event."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import attempt, refuse


def probability_bounds(
    counts: Any, trials: int, confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper one-sided Clopper-Pearson bounds, each at ``confidence``."""
    counts = np.asarray(counts)
    tail = 1 - confidence
    # If a bound is known to be 0 or 1, the quantile has an arbitrary valid argument and is not used.
    some, missed = np.maximum(counts, 1), np.maximum(trials - counts, 1)
    lower = np.where(counts > 0, betaincinv(some, trials - some + 1, tail), 0.0)
    upper = np.where(counts < trials, betainccinv(trials - missed + 1, missed, tail), 1.0)
    return lower, upper


def wilson_bounds(
    counts: Any, trials: int, confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Wilson's score bounds: fast and close to Clopper and Pearson's, but not guaranteed."""
    z2 = float(ndtri(confidence)) ** 2 / trials
    share = np.asarray(counts) / trials
    half = np.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return (share + z2 / 2 - half) / (1 + z2), (share + z2 / 2 + half) / (1 + z2)


def epsilon_lower_bound(
    counts: Any, other_counts: Any, trials: int, delta: float = 0.0, confidence: float = 0.95
) -> NDArray[np.float64]:
    """Return a lower confidence bound on epsilon from the counts of an event on two neighbors.

    (epsilon, delta)-privacy means p <= e^epsilon q + delta, so epsilon >= log((p - delta)/q). p is bounded
    from below and q from above, each at (1 + confidence)/2. By the union bound, the result holds with
    ``confidence``. The event must not have been chosen from these counts.

    Parameters
    ----------
    counts, other_counts : int or array of int
        How often the event happened in ``trials`` runs on each of the two datasets.
    trials : int
    delta : float, default=0.0
    confidence : float, default=0.95

    Returns
    -------
    float or array
        At least 0.

    Examples
    --------
    >>> from dpstats.auditing import epsilon_lower_bound
    >>> round(float(epsilon_lower_bound(7310, 2690, 10_000)), 3)
    0.955
    """
    trials = check_integer("trials", trials, at_least=1)
    counts, other_counts = (
        _check_counts(name, given, trials)
        for name, given in (("counts", counts), ("other_counts", other_counts))
    )
    delta = check_real("delta", delta, at_least=0, below=1)
    each = (1 + check_real("confidence", confidence, above=0, below=1)) / 2
    lower, _ = probability_bounds(counts, trials, each)
    _, upper = probability_bounds(other_counts, trials, each)
    return np.log(np.maximum((lower - delta) / upper, 1.0))


def _check_counts(name: str, given: Any, trials: int) -> NDArray[np.int64]:
    converted = attempt(lambda: np.asarray(given), Exception)
    found = np.array(None) if converted is None else converted
    if found.dtype.kind not in "iu" or (found.size and not 0 <= found.min() <= found.max() <= trials):
        raise refuse(name, given=given, allowed=f"whole numbers from 0 to trials = {trials}")
    return as_int64(found)
