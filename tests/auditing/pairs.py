"""Rows, and neighbors of them."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.full((50, 2), 0.25)
Z = X.copy()
Z[3] = (-1.0, 1.0)

ROWS, NEAR = np.array([0.2, 0.5, 0.9]), np.array([0.2, 0.5, 0.0])


def clipped_sum(x: Any, source: Any) -> Any:
    return source.laplace(np.clip(x, 0, 1).sum(), sensitivity=1.0)
