from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from dpstats.errors import ScaleOutOfRange
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.stages import Block, Discovery, JointStage, KeyCounts
from dpstats.privacy.stages.discovery import count_keys
from dpstats.release.additive import JointIntegers, additive_stages

# Undeclared keys: their noise, and the thresholds of their counts. Proof: docs/proofs/discovery.md.


THRESHOLD_SHARE = 0.5
"""Fraction of delta for the threshold. It nearly minimizes the threshold."""
LARGEST_EPSILON = 20.0
"""A larger epsilon is lowered to this one, where the threshold is a few rows."""

_HALVINGS = 4
_FURTHEST = 40  # standard deviations of the noise of a count
_FURTHEST_LOG = 700.0  # means of an exponential tail
_UPPER_SHARE = 0.7
"""Fraction of epsilon for the upper tail of counts alone, which is the lighter one: so the threshold is lower."""

Kind = TypeVar("Kind", bound=Discovery)


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
    far = row_steps + 1 + int(_FURTHEST * stage.scale_steps(stage.blocks[0]))
    return _lower(Discovery(stage, row_steps, far), (delta - of_noise) * (1 - 1e-9))


def count_discovery(name: str, block: str, guarantee: PrivacyGuarantee, bits: int = 30) -> KeyCounts:
    """Return the stage that releases counts of keys at a total of (epsilon, delta). A row has one key.

    Parameters
    ----------
    name, block : str
        Names of the stage and of its only block, the rows of each key.
    guarantee : PrivacyGuarantee
        delta must be positive. All of it is for the threshold.
    bits : int, default=30
        A row has two to this power of steps.
    """
    row, keys = 1 << bits, count_keys(guarantee.neighbors)
    epsilon = min(guarantee.epsilon, LARGEST_EPSILON) * (1 - 2.0**-40)
    # A row that is added or removed moves one key, in either direction: both tails have the same cost.
    above = _UPPER_SHARE * epsilon if keys > 1 else epsilon
    below = epsilon - above if keys > 1 else epsilon
    gap = math.inf if above == below else row / (above - below)
    touched = JointStage(
        name,
        "laplace",
        (Block(block, keys, 1 / row, 1.0),),
        float(keys * row),
        row / below,
        neighbors=guarantee.neighbors,
    )
    far = row + 1 + int(_FURTHEST_LOG * row / above)
    return _lower(KeyCounts(touched, row, far, gap), guarantee.delta)


def _lower(stage: Kind, delta: float) -> Kind:
    """Return a stage with the lowest threshold that costs at most delta."""
    least, far = stage.row_steps + 1, stage.threshold_steps
    while least < far:
        middle = (least + far) // 2
        enough = replace(stage, threshold_steps=middle).threshold_delta <= delta
        least, far = (least, middle) if enough else (middle + 1, far)
    lowest = replace(stage, threshold_steps=far)
    if lowest.threshold_delta > delta:
        raise ScaleOutOfRange(
            f"delta must be larger to discover labels, got a threshold at {delta:g}: no threshold costs that little"
        )
    return lowest
