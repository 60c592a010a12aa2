"""The picture of a regression: its coefficients with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.figures import forest
from dpstats.regression.base import Regression
from dpstats.report import picture_of
from dpstats.results import ConfidenceInterval

_MOST_COEFFICIENTS = 40


@picture_of.register(Regression)
def _of_regression(fitted: Regression[Any]) -> tuple[str, Any] | None:
    coefficients = np.atleast_1d(fitted.coef_).ravel()
    interval = fitted.confidence_interval()
    low, high = np.ravel(interval.low), np.ravel(interval.high)
    # The intercept is the first row, where there is one.
    names = [row[0] for row in fitted.summary().rows][-coefficients.size :]
    shown = np.isfinite(low) | np.isfinite(high)
    if low.shape != coefficients.shape or not 0 < shown.sum() <= _MOST_COEFFICIENTS:
        return None
    labels = [name for name, kept in zip(names, shown, strict=True) if kept]
    ends = ConfidenceInterval(low[shown, None], high[shown, None], interval.confidence_level)
    drawn = forest(labels, ["coefficient"], coefficients[shown, None], ends).figure
    return "The coefficients with their 95% intervals; the intercept is in the table.", drawn
