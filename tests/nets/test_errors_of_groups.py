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
    """Return the scores of each group's means, and of their differences."""
    own = [fitted.test(TRUTH[k], "greater").pvalue[k] for k in range(3)]
    return scores(own)


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
