"""The probability that a value of one group exceeds a value of another, from a released rank sum.

Proof: docs/intervals/ranks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.error_distributions import ErrorDistribution, Limits
from dpstats.inference import Estimates
from dpstats.intervals import error_tails
from dpstats.ranks.null import Numbers
from dpstats.results import FREE


@dataclass(frozen=True, eq=False)
class SuperiorityErrors(ErrorDistribution):
    """Errors of the proportion of pairs in which the value of the first group is larger.

    Attributes
    ----------
    share : float
        Released proportion including noise. It may be outside [0, 1].
    smaller : int
        Number of rows of the smaller group, m. The variance of the proportion p is at most p (1 - p)/m.
    noise_scale : float
        Scale of the Laplace noise in the proportion.
    """

    share: float
    smaller: int
    noise_scale: float

    @property
    def start(self) -> Numbers:
        return np.asarray(min(max(self.share, 0.0), 1.0))

    @property
    def box(self) -> Limits:
        return np.asarray(0.0), np.asarray(1.0)

    def spread(self, value: Any) -> Numbers:
        """Return the largest standard deviation of the sampling error if the probability equals ``value``."""
        value = np.clip(value, 0.0, 1.0)
        return np.asarray(np.sqrt(value * (1 - value) / self.smaller))

    def tails(self, value: Numbers) -> Limits:
        away = self.share - value
        less, greater = (
            error_tails(
                side * away, self.spread(value), "laplace", np.full(np.shape(value), self.noise_scale)
            )
            for side in (-1, 1)
        )
        return np.asarray(less), np.asarray(greater)


def superiority(
    statistic: float, sizes: tuple[int, int], noise_std: float, labels: tuple[Any, Any], simulated: bool
) -> Estimates:
    """Return P(X > Y) + P(X = Y)/2 for a value X of the first group and a value Y of the second.

    ``statistic`` is U - n_a n_b / 2 as released, and ``noise_std`` the standard deviation of its noise.
    """
    pairs = sizes[0] * sizes[1]
    std = noise_std / pairs
    errors = SuperiorityErrors(0.5 + statistic / pairs, min(sizes), std / np.sqrt(2))
    estimate = errors.start
    return Estimates(
        estimate[()],
        np.sqrt(errors.spread(estimate) ** 2 + std**2)[()],
        (f"P({labels[0]} > {labels[1]})",),
        f"the probability that a value of {labels[0]} is larger than one of {labels[1]}, with half the "
        "probability of a tie, in the population",
        errors,
        title="Private probability of superiority",
        notes=[
            f"{FREE} Intervals count sampling error and noise, by a normal approximation. The sampling variance is the "
            "largest of any two distributions: for like groups of one size it is 1.5 times what it must be."
        ],
        null=0.5,
        simulated=simulated,
    )
