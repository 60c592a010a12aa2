"""Paths of fits without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.regression.blocks import Blocks, Design
from dpstats.regression.engine import first_path
from dpstats.regression.path import Path
from dpstats.regression.plan import regression_plan


def exact(family: str, X: np.ndarray, y: np.ndarray, n_public: int = 10**7) -> Path:
    """Return the path of a fit without noise; the plan is that of many more rows, as if noise were small."""
    design = Design.check((-4, 4), None if family == "logistic" else (-6, 8), X.shape[1], True)
    plan = regression_plan(family, design, n_public, 1.0, 1e-6)
    return walked(first_path(plan), Blocks(X, y, design), len(X))


def walked(path: Path, rows: Blocks, n: int, last: str = "") -> Path:
    """Return a path after the exact answers of n rows up to a stage, as averages over as many rows as its plan has."""
    for stage in path.plan.stages:
        found = rows.answer(path.question(stage.name))
        blocks: Any = getattr(stage, "blocks", None)
        scale = path.plan.n_samples / n
        if blocks:
            path.take(stage.name, {b.name: found[b.name] * b.spacing * scale for b in blocks})
        else:
            path.take(stage.name, found[stage.name] * stage.spacing * scale)
        if stage.name == last:
            break
    return path
