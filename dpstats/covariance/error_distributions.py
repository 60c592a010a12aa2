from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.covariance.box_moments import Floats
from dpstats.error_distributions import ErrorDistribution, Limits, StatedErrors, Tail, normal_quantile
from dpstats.inference import Estimates
from dpstats.results import list_some
from dpstats.together import BONFERRONI

_MOST = 0.99
"""Fisher's transformation is used for correlations up to here, and up to two standard errors below 1."""


MOST_NOISE = 0.3
"""The noise of a variance over the variance, above which its correlations are not identified."""


def unidentified_note(names: Sequence[str], known: NDArray[np.bool_]) -> list[str]:
    """Return a note that names the columns with unidentified correlations, if there are any."""
    unknown = [name for name, found in zip(names, known, strict=True) if not found]
    if not unknown:
        return []
    return [
        f"Not identified: {list_some(unknown, 5)}. The noise of the variance exceeds {MOST_NOISE:g} of it, so the "
        "correlation is shown as 0 with the interval [-1, 1]. Use narrower bounds, fewer columns or a larger epsilon."
    ]


def noise_only_note(errors: BoundedErrors) -> list[str]:
    """Return a note if noise makes 95% intervals hold all possible values."""
    low, high = errors.limits(0.025)
    hidden = np.isfinite(errors.error) & (low <= errors.low) & (high >= errors.high)
    if not hidden.any():
        return []
    return [
        f"Noise only: {hidden.sum():,} of {hidden.size:,} intervals hold all possible values, because the noise is so "
        "large. Use more rows, narrower bounds, fewer columns or a larger epsilon."
    ]


def correlation_estimates(
    names: Sequence[str],
    errors: CorrelationErrors,
    estimand: str,
    *,
    title: str = "Private correlations",
    header: str = "correlation",
    facts: Sequence[tuple[str, str]],
    notes: Sequence[str],
    simulated: bool,
) -> Estimates:
    """Return the correlations of all pairs of columns, in the order of ``numpy.triu_indices``."""
    pairs = list(itertools.combinations(names, 2))
    return Estimates(
        errors.estimate,
        None,
        tuple(f"{first}, {second}" for first, second in pairs),
        estimand,
        errors,
        title=title,
        header=header,
        facts=facts,
        notes=notes,
        together=BONFERRONI,
        labels={"first": [first for first, _ in pairs], "second": [second for _, second in pairs]},
        simulated=simulated,
    )


@dataclass(frozen=True, eq=False)
class BoundedErrors(StatedErrors, ErrorDistribution):
    """Normal errors of numbers between public bounds; an infinite error gives both bounds."""

    low: Floats
    high: Floats

    @property
    def start(self) -> Floats:
        return np.clip(self.estimate, self.low, self.high)

    @property
    def box(self) -> Limits:
        return self.low, self.high

    def limits(self, tail: Tail) -> Limits:
        known = np.isfinite(self.error)
        width = np.where(known, normal_quantile(tail) * np.where(known, self.error, 0.0), np.inf)
        return (
            np.clip(self.estimate - width, self.low, self.high),
            np.clip(self.estimate + width, self.low, self.high),
        )


@dataclass(frozen=True, eq=False)
class CorrelationErrors(StatedErrors, ErrorDistribution):
    """Errors of correlations: the wider limit of a normal error and of Fisher's z; [-1, 1] if the error is infinite."""

    @property
    def box(self) -> Limits:
        one = np.ones(self.estimate.shape)
        return -one, one

    def limits(self, tail: Tail) -> Limits:
        known = np.isfinite(self.error)
        error = np.where(known, self.error, 0.0)
        width = normal_quantile(tail) * error
        most = np.clip(1 - 2 * error, 0.0, _MOST)
        r = np.clip(self.estimate, -most, most)
        z, spread = np.arctanh(r), width / (1 - r**2)
        low = np.minimum(self.estimate - width, np.tanh(z - spread))
        high = np.maximum(self.estimate + width, np.tanh(z + spread))
        low, high = np.where(known, low, -1.0), np.where(known, high, 1.0)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)
