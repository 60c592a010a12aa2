"""Survival curves and log-rank tests: errors are as claimed, where sampling, both, or noise make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.survival import LogRankTest, PrivateSurvival
from tests.nets.statements import Cell, Draw, Numbers, check, scores

HAZARDS, BINS = np.array([0.1, 0.16]), 6
ALIVE = (1 - HAZARDS[:, None]) ** np.arange(BINS + 1)
CAUSES = (0.6, 0.4)
ASKED, ONE = (2, 5), 0.6827
PLACES = (("sampling", 30.0), ("both", 1.0), ("noise", 0.25))


def subjects(n: int, hazards: Any = HAZARDS, shares: Any = (0.4, 0.6), causes: Any = CAUSES) -> Draw:
    """Return what draws subjects of two groups, whose times are whole: tables then have no error of the grid."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        group = rng.choice(len(shares), n, p=shares)
        times, left = rng.geometric(np.asarray(hazards)[group]), rng.geometric(0.08, n)
        cause = rng.choice(np.arange(len(causes)) + 1, n, p=causes)
        return np.minimum(times, left).astype(float), np.where(times <= left, cause, 0), group

    return draw


def off(interval: Any, truth: Any) -> Numbers:
    """Return how far an interval of one standard deviation is off, in standard deviations."""
    low, high = (np.asarray(end) for end in (interval.low, interval.high))
    return np.ravel(((low + high) / 2 - truth) / ((high - low) / 2))


def curves(fitted: Any) -> Numbers:
    """Return the scores of survivals, restricted means and their differences."""
    areas = ALIVE[:, :-1].sum(axis=1)
    compared = [
        (fitted.rmst(group=0), areas[0]),
        (fitted.rmst_difference(0, 1), areas[0] - areas[1]),
        (fitted.difference(0, 1, 4), ALIVE[0, 4] - ALIVE[1, 4]),
    ]
    return np.concatenate(
        [
            off(fitted.confidence_interval(ONE, t=ASKED), ALIVE[:, list(ASKED)]),
            *(off(found.confidence_interval(ONE), truth) for found, truth in compared),
        ]
    )


def incidences(fitted: Any) -> Numbers:
    """Return the scores of cumulative incidences."""
    return np.concatenate(
        [
            off(fitted.incidence_interval(cause, 5, ONE, group=k), CAUSES[cause - 1] * (1 - ALIVE[k, 5]))
            for k, cause in ((0, 1), (1, 2))
        ]
    )


def one_sided(fitted: Any) -> Numbers:
    """Return the score of a log-rank test of two groups, in the direction of its statistic."""
    half = fitted.pvalue_ / 2
    return scores([half if fitted.statistic_ > 0 else 1 - half])


def table(epsilon: float, **more: Any) -> Callable[[], Any]:
    return lambda: PrivateSurvival(
        horizon=BINS, bins=BINS, groups=[0, 1], causes=[1, 2], discrete=True, epsilon=epsilon, **more
    )


CELLS = [
    *(
        # Critical values are at least the normal ones.
        Cell(f"curves, {place}", table(epsilon), subjects(1500), curves, 150, least=0.85, off=0.1, power=0.7)
        for place, epsilon in PLACES
    ),
    Cell("curves, Gaussian", table(1.0, delta=1e-6), subjects(1500), curves, 150, 0.85, 1.0, 0.1, 0.7),
    *(
        Cell(f"incidences, {place}", table(epsilon), subjects(1500), incidences, 300, 0.9, 1.0, 0.1, 0.75)
        for place, epsilon in PLACES
    ),
    *(
        Cell(
            f"log-rank, {place}",
            lambda epsilon=epsilon: LogRankTest(groups=[0, 1], horizon=BINS, epsilon=epsilon),
            subjects(1500, (0.1, 0.1), causes=(1.0,)),
            one_sided,
            500,
            # The second order in the noise is an upper bound.
            least={"noise": 0.7}.get(place, 0.9),
            off=0.1,
            power=0.7,
        )
        for place, epsilon in PLACES
    ),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_errors_are_as_claimed(cell: Cell) -> None:
    check(cell)
