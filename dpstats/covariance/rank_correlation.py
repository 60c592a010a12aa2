from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.covariance.concordance import concordance, ranks
from dpstats.lattice.products import Sums
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers, additive_stages

Floats = NDArray[np.float64]

STAGE, CONCORDANCE, SQUARES = "rank correlations", "concordance", "squared concordance of rows"
SQUARES_WEIGHT = 0.1
"""Squared weight of the squares. Only the errors of correlations need them."""
MOST_ROWS = 1_000_000
"""n (n - 1)^2 is below 2^62: squares with their noise stay inside 64 bits."""
_SAFE = 1 + 1e-12
_LEAST_SPREAD = 0.3
"""Least variance of a row's concordance, over the variance for independent columns."""


@dataclass(frozen=True)
class CorrelationPlan(ReleasePlan):
    """The plan of a `PrivateCorrelation` by Kendall: one stage with the rank correlations of all pairs of columns."""

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a correlation."""
        return float(np.asarray(self.noise(CONCORDANCE).std))

    def errors(self, released: Mapping[str, Floats]) -> Floats:
        """Return the standard errors of the correlations: sampling and noise."""
        n, tau = self.n_samples, np.clip(released[CONCORDANCE], -1.0, 1.0)
        raised = released[SQUARES] + float(np.asarray(self.noise(SQUARES).std))
        # Of a row's concordance the variance is at most half of 1 - tau^2, and a ninth for independent columns.
        spread = np.clip(raised - tau**2, _LEAST_SPREAD * (1 - tau**2) ** 2 / 9, (1 - tau**2) / 2)
        return np.asarray(np.sqrt(4 * spread / n + 2 * (1 - tau**2) / n**2 + self.noise_std**2))

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_std": self.noise_std}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        ratio = self.noise_std * 1.5 * math.sqrt(self.n_samples)
        return [f"for independent columns the noise of a correlation is {ratio:.2g} times its sampling error"]


def concordance_integers(d: int, n: int) -> JointIntegers:
    """Return the blocks of the stage for n rows of d columns."""
    pairs, others = d * (d - 1) // 2, n - 1
    weight = math.sqrt(SQUARES_WEIGHT)
    blocks = (
        Block(CONCORDANCE, pairs, 2 / (n * others), float(others * d)),
        Block(SQUARES, pairs, 1 / (n * others**2), 5.0 * others**2 * math.sqrt(pairs) / weight),
    )
    return JointIntegers(STAGE, blocks, math.inf, math.sqrt(1 + SQUARES_WEIGHT) * _SAFE)


def concordance_sums(X: Floats) -> Sums:
    """Return the sums over pairs of rows of products of signs, and the sums over rows of their squared sums.

    Both have an entry for each pair of columns.
    """
    columns = [ranks(column) for column in X.T]
    total, squares = [], []
    # One pair of columns at a time: the rows of all pairs would need n d^2/2 numbers.
    for first, second in itertools.combinations(columns, 2):
        row = concordance(first, second)
        total.append(row.sum())
        squares.append((row**2).sum())
    return {CONCORDANCE: np.array(total) // 2, SQUARES: np.array(squares)}


def plan_concordance(n: int, d: int, guarantee: PrivacyGuarantee) -> CorrelationPlan:
    """Return the plan for public sizes."""
    stages = additive_stages([concordance_integers(d, n)], guarantee.epsilon, guarantee.delta)
    return CorrelationPlan(stages, guarantee, n, d)
