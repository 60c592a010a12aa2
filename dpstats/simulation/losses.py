"""Losses of a replication: one number from a fit and the true value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, refuse

Loss = Callable[[Any, Any, NDArray[np.float64]], float]
"""``loss(fitted, X, true_mean)``: one number; ``true_mean`` is None where the sampler states none."""

_ESTIMATES = ("mean_", "location_", "coef_", "estimate_")


def estimate_of(fitted: Any) -> NDArray[np.float64]:
    """Return the vector that a fitted estimator reports: the first of mean_, location_, coef_, estimate_."""
    for name in _ESTIMATES:
        if hasattr(fitted, name):
            return np.asarray(getattr(fitted, name), dtype=np.float64)
    raise DPStatsError(
        f"{type(fitted).__name__} has none of {', '.join(_ESTIMATES)}: give loss a callable, or use Adapter"
    )


def squared_error(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Squared l2 distance of the estimate from the true mean."""
    difference = estimate_of(fitted) - truth
    return float(difference @ difference)


def released_squared_error(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Squared l2 distance of ``released_mean_``, which no bounds have cut, from the true mean.

    Its risk is what formulas of the theory say, also where the noise is larger than the bounds.
    """
    difference = np.asarray(fitted.released_mean_) - truth
    return float(difference @ difference)


def support_recovery(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Share of the columns with a mean other than 0 that are in ``support_``."""
    support = np.flatnonzero(truth)
    if support.size == 0:
        raise DPStatsError("support recovery needs a true mean with at least one entry other than 0")
    found = np.asarray(fitted.support_)
    chosen = np.flatnonzero(found) if found.dtype == bool else found
    return float(np.isin(support, chosen).mean())


def coverage(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Share of the columns whose interval covers the true mean."""
    return float(_covered(fitted.confidence_interval(), truth).mean())


def simultaneous_coverage(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Return whether all simultaneous intervals cover at once."""
    return float(_covered(fitted.confidence_interval(simultaneous=True), truth).all())


def _covered(interval: Any, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    low, high = interval
    return np.asarray((np.asarray(low) <= truth) & (np.asarray(high) >= truth))


def rejection(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Return whether a test rejects: its level under the null hypothesis, its power elsewhere."""
    return float(bool(fitted.reject_))


LOSSES: Mapping[str, Loss] = {
    "squared_error": squared_error,
    "released_squared_error": released_squared_error,
    "support_recovery": support_recovery,
    "coverage": coverage,
    "simultaneous_coverage": simultaneous_coverage,
    "rejection": rejection,
}
NEEDS_TRUTH = frozenset(LOSSES) - {"rejection"}


def named_losses(loss: Any) -> dict[str, Loss]:
    """Return the losses of a study by name: from a name, a callable, a list of these, or a mapping."""
    if isinstance(loss, Mapping):
        items = dict(loss)
    else:
        several = loss if isinstance(loss, list | tuple) else [loss]
        items = {
            item if isinstance(item, str) else getattr(item, "__name__", "loss"): item for item in several
        }
        if len(items) < len(several):
            raise refuse("loss", allowed="not name the same loss twice")
    chosen: dict[str, Loss] = {}
    for name, item in items.items():
        if isinstance(item, str) and item in LOSSES:
            chosen[name] = LOSSES[item]
        elif callable(item):
            chosen[name] = item
        else:
            raise refuse("loss", given=loss, allowed=f"one of {', '.join(LOSSES)}, or a callable")
    if not chosen:
        raise refuse("loss", allowed="name at least one loss")
    return chosen
