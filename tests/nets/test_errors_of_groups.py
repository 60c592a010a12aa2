"""Means of groups and of rows: errors are as claimed, where sampling, both, or noise make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.groups import GroupMeans, MeanPerRow
from tests.nets.statements import Cell, Draw, Numbers, check, scores

# No two columns, groups and sizes alike: whatever goes by the wrong one shows.
ENDS = np.array([[-1.0, 3.0], [10.0, 50.0]])
SIZES = np.array([0.2, 0.5, 0.3])
PLACES = np.array([[0.2, 0.7], [0.6, 0.3], [0.85, 0.5]])
ROWS = np.array([[2.0, 8.0], [5.0, 2.0], [10.0, 3.0]])
TRUTH = ENDS[:, 0] + PLACES * (ENDS[:, 1] - ENDS[:, 0])


def rows(n: int) -> Draw:
    """Return what draws n rows of three groups and two columns."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        group = rng.choice(3, n, p=SIZES)
        inside = rng.beta(PLACES[group] * ROWS[group], (1 - PLACES[group]) * ROWS[group])
        return ENDS[:, 0] + inside * (ENDS[:, 1] - ENDS[:, 0]), group

    return draw


def means(fitted: Any) -> Numbers:
    """Return the scores of each group's means."""
    return scores([fitted.test(TRUTH[k], "greater").pvalue[k] for k in range(3)])


def of_units(n: int) -> Draw:
    """Return what draws n units of one to four rows, far from the middle of the bounds."""
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(n), rng.integers(1, 5, n))
    same = (ENDS[:, 0] + rng.beta([8.0, 3.0], [2.0, 6.0], size=(unit.size, 2)) * (ENDS[:, 1] - ENDS[:, 0]), unit)
    return lambda rng: same


EXACT = MeanPerRow(bounds=ENDS, max_rows=4, epsilon=1e4, random_state=0)
EXACT_MEANS = EXACT.fit(*of_units(300)(np.random.default_rng(0))).mean_

UNITS = [
    Cell(
        "noise of a mean of units' rows",
        lambda: MeanPerRow(bounds=ENDS, max_rows=4, epsilon=2.0),
        of_units(300),
        lambda fitted: (fitted.mean_ - EXACT_MEANS) / fitted.noise_std_,
        800,
        # Of a ratio, to first order.
        off=0.1,
    ),
    Cell(
        "noise of the number of rows",
        lambda: MeanPerRow(bounds=ENDS, max_rows=4, epsilon=2.0),
        of_units(300),
        lambda fitted: np.array([(fitted.rows_ - EXACT.rows_) / fitted.rows_noise_std_]),
        800,
        off=0.1,
    ),
]

GROUPS = [
    Cell(
        f"{place}, delta = {delta:g}",
        lambda epsilon=epsilon, delta=delta: GroupMeans(
            groups=[0, 1, 2], bounds=ENDS, bounds_are="hard", epsilon=epsilon, delta=delta
        ),
        rows(n),
        means,
        500 if delta else 200,
        # Sampling errors are from a spread that is raised by its noise.
        least=0.9,
    )
    for place, n, epsilon in (("sampling", 2000, 8.0), ("both", 2000, 0.5), ("noise", 4000, 0.1))
    for delta in (1e-6, 0.0)
]


@pytest.mark.parametrize("cell", GROUPS + UNITS, ids=lambda cell: cell.name)
def test_errors_are_as_claimed(cell: Cell) -> None:
    check(cell)
