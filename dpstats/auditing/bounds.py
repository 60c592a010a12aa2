"""What counts prove about epsilon: Clopper-Pearson bounds on the two probabilities of an event."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dpstats.validation import check_real


def probability_bounds(
    counts: Any, trials: int, confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return one-sided lower and upper Clopper-Pearson bounds, each at ``confidence``."""
    counts = np.asarray(counts)
    tail = 1 - confidence
    with np.errstate(invalid="ignore"):
        lower = np.where(counts > 0, beta.ppf(tail, counts, trials - counts + 1), 0.0)
        upper = np.where(counts < trials, beta.isf(tail, counts + 1, trials - counts), 1.0)
    return lower, upper


def epsilon_lower_bound(
    counts: Any, other_counts: Any, trials: int, delta: float = 0.0, confidence: float = 0.95
) -> NDArray[np.float64]:
    """Return a lower confidence bound on epsilon from how often an event happened on two neighbours.

    (epsilon, delta)-privacy means p <= e^epsilon q + delta, so epsilon >= log((p - delta)/q): p is
    bounded from below and q from above, each at (1 + confidence)/2, and the bound holds with
    ``confidence`` by the union bound. The event must not have been chosen from these counts.

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
    delta = check_real("delta", delta, at_least=0, below=1)
    each = (1 + check_real("confidence", confidence, above=0, below=1)) / 2
    lower, _ = probability_bounds(counts, trials, each)
    _, upper = probability_bounds(other_counts, trials, each)
    return np.log(np.maximum((lower - delta) / upper, 1.0))
