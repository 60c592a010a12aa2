"""Tables, proportions and workloads: limits of shares miss as often as they say, where sampling or noise makes errors.

Limits that count exact laws are compared with them; the others are inverted score tests, which are careful.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.queries import Domain, WorkloadAnswers
from dpstats.tables import ContingencyTable, PrivateProportion
from tests.nets.statements import FAR, Cell, Draw, Numbers, check, fits, scores

# Two groups and an outcome of five levels, all unlike.
SHARES = np.array([[0.30, 0.12, 0.08, 0.04, 0.06], [0.05, 0.10, 0.05, 0.15, 0.05]])
LEVELS = {"group": ["a", "b"], "outcome": [0, 1, 2, 3, 4]}


def rows(n: int, dropped: float = 0.0) -> Draw:
    """Return what draws n rows of two attributes, some of them in no cell."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        codes = rng.choice(10, n, p=SHARES.ravel())
        group = np.where(rng.random(n) < dropped, "c", np.array(["a", "b"])[codes // 5])
        return (np.rec.fromarrays([group, codes % 5], names="group,outcome").tolist(),)

    return draw


def rate_of_misses(low: Any, high: Any, truth: Any) -> Numbers:
    """Return which limits miss: shape (fits, 2, cells), lower ones first."""
    return np.stack([np.asarray(low) > truth, np.asarray(high) < truth], axis=1).astype(float)
