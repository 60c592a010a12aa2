"""What was released of a stage, as one array; what neighbors move a stage by is in dpstats.auditing.movement."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.privacy import JointStage, Stage


def joined(stage: Stage | JointStage, released: Any) -> np.ndarray:
    """Return what was released of a stage as one array, its blocks side by side."""
    if isinstance(stage, JointStage):
        return np.concatenate([released[block.name] for block in stage.blocks], axis=-1)
    return np.asarray(released)
