"""Fitted models for tests."""

from __future__ import annotations

from typing import Any

import numpy as np


class Zero:
    """A model that predicts 0."""

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))
