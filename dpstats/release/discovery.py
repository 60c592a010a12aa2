"""The stage that releases numbers of undeclared keys:

its noise, and its threshold. Proof: docs/proofs/discovery.md.
"""

from __future__ import annotations

from dpstats.errors import ScaleOutOfRange
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Discovery, JointStage
from dpstats.release.additive import JointIntegers, additive_stages

THRESHOLD_SHARE = 0.5
"""Fraction of delta for the threshold. It nearly minimizes the threshold."""
LARGEST_EPSILON = 20.0
"""A larger epsilon is lowered to this one, where the threshold is a few rows."""

_HALVINGS = 4
_FURTHEST = 40  # standard deviations of the noise of a count


def discovery_stage(
    touched: JointIntegers,
    row_steps: int,
    epsilon: float,
    delta: float,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
) -> Discovery:
    """Return the stage that releases integers of keys at a total of (epsilon, delta).

    Parameters
    ----------
    touched : JointIntegers
        The numbers of the keys that a row can touch, counts first: two keys of a replaced row, and one of a row that is
        added or removed.
    row_steps : int
        The steps that a row adds to the count of its key.
    epsilon, delta : float
        delta must be positive: without it no key can be shown.
    """
    of_noise = delta * (1 - THRESHOLD_SHARE)
    for halvings in range(_HALVINGS):
        # Where delta is small, the lattice is fine enough for a smaller epsilon only.
        (stage,) = additive_stages(
            [touched], min(epsilon, LARGEST_EPSILON) / 2**halvings, of_noise, neighbors=neighbors
        )
        assert isinstance(stage, JointStage)
        if not stage.concentrated:
            break
    else:
        raise ScaleOutOfRange(
            f"delta must be larger to discover labels, got {delta:g}: no lattice is fine enough for its exact curve. "
            "Give delta=1e-6 for example"
        )
    most = (delta - of_noise) * (1 - 1e-9)

    def enough(threshold: int) -> bool:
        return Discovery(stage, row_steps, threshold).threshold_delta <= most

    least, far = row_steps + 1, row_steps + 1 + int(_FURTHEST * stage.scale_steps(stage.blocks[0]))
    while least < far:
        middle = (least + far) // 2
        least, far = (least, middle) if enough(middle) else (middle + 1, far)
    return Discovery(stage, row_steps, far)
