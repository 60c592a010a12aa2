"""The trade-off curve: a bound on the power of any test that a row is in the data."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstats.errors import attempt, refuse
from dpstats.privacy.events import Event, Gaussian
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import gaussian_total


class _Planned(Protocol):
    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def guarantee(self) -> PrivacyGuarantee: ...


# A test of a dataset against its neighbor has a type I error a and a type II error b. Privacy bounds b from below
# (Wasserman and Zhou 2010; Dong, Roth and Su 2022). The bound of a guarantee is the largest of 0,
# 1 - delta - e^epsilon a and e^-epsilon (1 - delta - a). A profile has the largest of these bounds over epsilon.
def tradeoff_curve(item: PrivacyGuarantee | _Planned | Event, type_one_error: Any) -> NDArray[np.float64]:
    """Return the smallest type II error that any test with this type I error can have.

    Parameters
    ----------
    item : PrivacyGuarantee, ReleasePlan or event
        A plan of Gaussian releases, and a Gaussian event, give their exact curve; any other plan
        its composed guarantee.
    type_one_error : float or array of float
        In [0, 1].

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, tradeoff_curve
    >>> print(f"{1 - tradeoff_curve(PrivacyGuarantee(1.0), 0.05):.3f}")  # power of any test at level 5%
    0.136
    """
    errors = attempt(lambda: np.asarray(type_one_error, dtype=np.float64), Exception)
    if errors is None or not np.all((errors >= 0) & (errors <= 1)):
        raise refuse("type_one_error", given=type_one_error, allowed="numbers at least 0 and at most 1")
    if isinstance(item, PrivacyGuarantee):
        return _line(item.epsilon, item.delta, errors)
    events = (item,) if isinstance(item, Event) else item.events
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    if len(gaussians) == len(events):
        total = gaussian_total(gaussians)
        # The sampled noise is within a total variation t of the noise of the curve, so both errors change by at most t.
        # Use the quantile of the error itself: 1 - error would round to 1 for a small error.
        moved = np.minimum(1.0, errors + total.total_variation)
        return _lowered(ndtr(-ndtri(moved) - total.mu) - total.total_variation)
    if isinstance(item, Event):
        return _envelope(item, errors)
    return _line(item.guarantee.epsilon, item.guarantee.delta, errors)


_ROUNDING = 1e-13


def _lowered(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a curve lowered by more than its rounding error, so that it is a lower bound."""
    return np.maximum(0.0, curve - _ROUNDING * np.abs(curve) - 1e-15)


def _line(epsilon: float, delta: float, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    log_errors = np.log(np.maximum(errors, 5e-324))
    # e^epsilon may exceed the range of floats. A product above e makes the line negative.
    grown = np.where(errors > 0, np.exp(np.minimum(epsilon + log_errors, 1.0)), 0.0)
    grown = grown * (1 + 1e-15 * (epsilon + np.abs(log_errors)))
    return _lowered(np.maximum(1 - delta - grown, (1 - delta - errors) * np.exp(-epsilon)))


def _envelope(event: Event, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    # Every epsilon proves a curve, so a grid of them proves their maximum.
    top = min(event.largest_loss(), 50.0)
    best = np.zeros_like(errors)
    for epsilon in np.linspace(0.0, top, 400):
        best = np.maximum(best, _line(epsilon, event.profile(epsilon), errors))
    return best
