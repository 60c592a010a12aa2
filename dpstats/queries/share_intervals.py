"""Intervals for shares of rows from unbiased answers with Gaussian noise: of these rows, or of their population."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.parameters import check_choice
from dpstats.intervals import simultaneous_level
from dpstats.noisy_counts import CountNoise, limits
from dpstats.results import ConfidenceInterval

Numbers = NDArray[np.float64]


def check_estimand(estimand: Any) -> str:
    """Return what intervals are to cover, one of "data" and "population"."""
    return check_choice("estimand", estimand, ["data", "population"])


def share_intervals(
    answers: Numbers,
    noise_std: Numbers,
    n_samples: int,
    level: float,
    estimand: str = "data",
    simultaneous: bool = False,
) -> ConfidenceInterval:
    """Return an interval for every share.

    Parameters
    ----------
    answers, noise_std : arrays of shape (k,)
        Unbiased shares of n rows, and the standard deviations of their Gaussian noise.
    n_samples : int
    level : float
        Of each, or of all together.
    estimand : {"data", "population"}
        The shares of the rows, whose only error is the noise; or those of a population, of which a count is binomial:
        limits from the exact tails of binomial plus noise.
    simultaneous : bool
        Sidak's level, which holds for normal noise of any correlation; for a population Bonferroni's.
    """
    if estimand == "data":
        each = simultaneous_level(level, answers.size) if simultaneous else level
        half = float(-ndtri((1 - each) / 2)) * noise_std
        low, high = np.clip(answers - half, 0.0, 1.0), np.clip(answers + half, 0.0, 1.0)
        return ConfidenceInterval(low, high, level, "the shares of these rows", simultaneous)
    tail, n = (1 - level) / 2 / (answers.size if simultaneous else 1), n_samples
    ends = np.array(
        [
            limits(n * answer, n * answer, n, CountNoise("gaussian", n * std), tail)
            for answer, std in zip(answers.tolist(), noise_std.tolist(), strict=True)
        ]
    )
    words = "the shares of the population that the rows are a sample of"
    return ConfidenceInterval(ends[:, 0], ends[:, 1], level, words, simultaneous)
