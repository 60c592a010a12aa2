"""Means and variances of columns: errors are as claimed, where sampling, both, or noise make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from tests.nets.statements import Cell, Draw, Numbers, check, scores

# No two columns alike.
MEANS = np.array([0.5, -1.0, 2.0])
SPREADS = np.array([1.0, 0.5, 1.5])
BOUNDS = np.array([[-4.0, 4.0], [-3.0, 2.0], [-3.0, 9.0]])
WIDE = np.stack([MEANS - 4 * SPREADS, MEANS + 4 * SPREADS], axis=1)


def rows(n: int) -> Draw:
    """Return what draws n normal rows."""
    return lambda rng: (MEANS + SPREADS * rng.normal(size=(n, 3)),)


def always(n: int) -> Draw:
    """Return what draws the same rows every time: the noise is all the error there is."""
    same = rows(n)(np.random.default_rng(5))
    return lambda rng: same


EXACT = ClippedMean(bounds=BOUNDS, std=None, epsilon=1e5, delta=1e-3, random_state=0)
EXACT_MEANS = EXACT.fit(*always(300)(np.random.default_rng(0))).mean_


def mean(fitted: Any) -> Numbers:
    """Return the scores of means."""
    return scores(fitted.test(MEANS, "greater").pvalue)


def noise(fitted: Any) -> Numbers:
    """Return the scores of means of the same rows: by the p-value, and by the noise's standard deviation."""
    return np.concatenate(
        [scores(fitted.test(EXACT_MEANS, "greater").pvalue), (fitted.released_mean_ - EXACT_MEANS) / fitted.noise_std_]
    )


def variance(fitted: Any) -> Numbers:
    """Return how many claimed standard errors variances are off: of what an interval of level 0.9 is twice 1.645."""
    low, high = fitted.confidence_interval(0.9)
    return np.asarray((fitted.variance_ - SPREADS**2) / ((high - low) / 2 / 1.645))


def by_covariance(fitted: Any) -> Numbers:
    """Return how many claimed standard errors means are off."""
    return np.asarray((fitted.mean_ - MEANS) / np.sqrt(np.diag(fitted.cov_params_)))


# Three of eight columns are selected every time.
FEW = np.array([0.9, -0.45, 0.0, 0.0, 0.0, 0.0, 0.0, -0.8])
UNEQUAL = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 1.0, 0.5, 1.5])


def sparse(fitted: Any) -> Numbers:
    """Return how many claimed standard errors means of selected columns are off."""
    assert fitted.support_.tolist() == [0, 1, 7]
    return np.asarray((fitted.mean_ - FEW)[fitted.support_] / np.sqrt(np.diag(fitted.cov_params_)))


# A quarter of the entries is missing; of the others three quarters are outside.
OFTEN_OUTSIDE = np.where(np.arange(300) % 4 == 0, np.nan, np.where(np.arange(300) % 16 < 12, 2.0, 0.5))[:, None]
OUTSIDE = float(np.mean(OFTEN_OUTSIDE[np.isfinite(OFTEN_OUTSIDE)] > 1))


def share(fitted: Any) -> Numbers:
    """Return how many claimed standard errors a share of clipped entries is off."""
    return np.asarray((fitted.clipped_share_ - OUTSIDE) / fitted.clipped_share_std_)


PLACES = (("sampling", 20.0), ("both", 1.0), ("noise", 0.1))
CELLS = [
    *(
        Cell(
            f"clipped mean, std public {delta:g}, {place}",
            lambda epsilon=epsilon, delta=delta: ClippedMean(bounds=BOUNDS, std=SPREADS, epsilon=epsilon, delta=delta),
            rows(400),
            lambda fitted: scores(fitted.test(MEANS, "greater", estimand="clipped").pvalue),
            500,
        )
        for place, epsilon in PLACES
        for delta in (0.0, 1e-6)
    ),
    *(
        # A private spread is raised by its noise.
        Cell(
            f"clipped mean, std private {delta:g}, {place}",
            lambda epsilon=epsilon, delta=delta: ClippedMean(
                bounds=BOUNDS, bounds_are="hard", std="private", epsilon=epsilon, delta=delta
            ),
            rows(400),
            mean,
            500,
            least=0.9,
            power=0.8,
        )
        for place, epsilon in PLACES
        for delta in (0.0, 1e-6)
    ),
    *(
        Cell(
            f"clipped mean, noise alone, {delta:g}",
            lambda delta=delta: ClippedMean(bounds=BOUNDS, std=None, delta=delta),
            always(300),
            noise,
            1000,
        )
        for delta in (0.0, 1e-6)
    ),
    Cell(
        "clipped share of observed entries, noise alone",
        lambda: ClippedMean(bounds=(0, 1), missing="drop", clipped_share=True, epsilon=3.0, delta=1e-6),
        lambda rng: (OFTEN_OUTSIDE,),
        share,
        500,
    ),
    *(
        # Fourth moments are raised by what they may be off.
        Cell(
            f"variance, {place}",
            lambda epsilon=epsilon: PrivateVariance(bounds=WIDE, epsilon=epsilon, delta=1e-6),
            rows(2000),
            variance,
            300,
            least=0.6,
            power=0.6,
        )
        for place, epsilon in PLACES[:2]
    ),
    *(
        # The bias that a stated law allows is part of the interval, and none of the standard error.
        Cell(
            f"adaptive mean, {epsilon:g}",
            lambda epsilon=epsilon: AdaptiveMean(bound=10.0, std=SPREADS, epsilon=epsilon),
            rows(1000),
            by_covariance,
            450,
            off=0.1,
        )
        for epsilon in (20.0, 1.0, 0.3)
    ),
    *(
        # Clipping moves a mean by next to nothing.
        Cell(
            f"sparse mean {delta:g}, {place}",
            lambda epsilon=epsilon, delta=delta: SparseMean(
                n_nonzero=3, clip=6.0, std=UNEQUAL, split=True, epsilon=epsilon, delta=delta
            ),
            lambda rng: (FEW + UNEQUAL * rng.normal(size=(1500, 8)),),
            sparse,
            450,
            off=0.1,
        )
        for place, epsilon, delta in (("sampling", 50.0, 1e-6), ("both", 2.0, 1e-6), ("noise", 0.5, 0.0))
    ),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_errors_are_as_claimed(cell: Cell) -> None:
    check(cell)
