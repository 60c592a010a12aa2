"""From sensitivities in lattice steps to calibrated stages of a plan.

Proofs: docs/proofs/laplace.md and docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from dpstats.errors import NotPrivate, refuse
from dpstats.privacy.events import lattice_slack
from dpstats.privacy.gaussian import (
    LARGEST_LATTICE_SHARE,
    LATTICE_SHARE,
    SMALLEST_STEPS,
    TOTAL_VARIATION,
    gaussian_sigma,
)
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Block, JointStage, Stage
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.release.noise import MIN_SCALE, check_scale


@dataclass(frozen=True)
class Integers:
    """Input of a stage: a vector of integers with a known sensitivity.

    ``l1`` and ``l2`` are sensitivities in steps, and ``spacing`` is the length of a step in the units of the
    release. ``share`` is its budget fraction (of epsilon, or of mu^2).
    """

    name: str
    size: int
    spacing: float | tuple[float, ...]
    l1: int
    l2: int
    share: float = 1.0

    def sizes(self, scale: float) -> list[tuple[int, float]]:
        """Return pairs of a number of values and the scale of their noise in steps."""
        return [(self.size, scale)]

    def stage(self, noise: str, scale: float, neighbors: Neighbors, concentrated: bool = False) -> Stage:
        """Return the stage that releases them."""
        sensitivity = self.l1 if noise == "laplace" else self.l2
        return Stage(
            self.name,
            noise,
            self.size,
            self.spacing,
            sensitivity,
            scale,
            neighbors=neighbors,
            concentrated=concentrated,
        )


@dataclass(frozen=True)
class JointIntegers:
    """Several vectors of integers that one stage will release together.

    ``l1`` and ``l2`` are joint sensitivities of all blocks, each block in its ``unit_steps``. They are maxima
    over pairs of rows, and smaller than the sum of the separate maxima.
    """

    name: str
    blocks: tuple[Block, ...]
    l1: float
    l2: float
    share: float = 1.0

    def sizes(self, scale: float) -> list[tuple[int, float]]:
        """Return pairs of a number of values and the scale of their noise in steps."""
        return [(block.size, scale * block.unit_steps) for block in self.blocks]

    def stage(self, noise: str, scale: float, neighbors: Neighbors, concentrated: bool = False) -> JointStage:
        """Return the stage that releases them."""
        sensitivity = self.l1 if noise == "laplace" else self.l2
        return JointStage(
            self.name, noise, self.blocks, sensitivity, scale, neighbors=neighbors, concentrated=concentrated
        )


@overload
def additive_stages(
    items: Sequence[Integers],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = ...,
    calibration: str = ...,
) -> tuple[Stage, ...]: ...


@overload
def additive_stages(
    items: Sequence[Integers | JointIntegers],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = ...,
    calibration: str = ...,
) -> tuple[Stage | JointStage, ...]: ...


def additive_stages(
    items: Sequence[Integers | JointIntegers],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    calibration: str = "exact",
) -> tuple[Stage | JointStage, ...]:
    """Return the stages that release the integers at a total of (epsilon, delta).

    delta = 0 gives Laplace noise; delta > 0 gives Gaussian noise from the exact curve, or through
    zero-concentrated privacy where the lattice is too coarse for that curve.
    ``calibration="textbook"`` gives the source text's constants, where they are private. A scale
    that cannot be drawn raises here, long before a charge.
    """
    if delta == 0:
        noise, concentrated = "laplace", False
        # Shares of a float epsilon can add up to one unit in the last place too much.
        several = (1 - 2.0**-50) if len(items) > 1 else 1.0
        scales = [_drawable(item, quotient_up(item.l1, item.share * epsilon * several)) for item in items]
    elif calibration == "textbook":
        noise, concentrated = "gaussian", False
        scales = [_textbook_scale(items, epsilon, delta)]
    else:
        noise = "gaussian"
        scales, concentrated = _gaussian_scales(items, epsilon, delta)
    for item, scale in zip(items, scales, strict=True):
        for _, drawn in item.sizes(scale):
            check_scale(drawn)
    return tuple(
        item.stage(noise, scale, neighbors, concentrated) for item, scale in zip(items, scales, strict=True)
    )


def _drawable(item: Integers | JointIntegers, scale: float) -> float:
    """Return the scale, or the smallest one that can be drawn: more noise than a very large epsilon needs."""
    least = min((drawn for _, drawn in item.sizes(1.0)), default=1.0)
    return max(scale, MIN_SCALE / least)


def concentrated_stage(item: Integers | JointIntegers, rho: float) -> Stage | JointStage:
    """Return Gaussian noise that costs the integers' fraction of rho, on any lattice."""
    scale = _concentrated_scale(item, rho)
    for _, drawn in item.sizes(scale):
        check_scale(drawn)
    return item.stage("gaussian", scale, Neighbors.REPLACE_ONE, concentrated=True)


def _gaussian_scales(
    items: Sequence[Integers | JointIntegers], epsilon: float, delta: float
) -> tuple[list[float], bool]:
    """Return the scales of the exact curve or of zero-concentrated privacy, and which of the two they are."""
    # The part of delta for discrete noise is the same as a budget's, so that a plan for a whole budget fits.
    # It is larger only if this lattice requires it.
    for share in (LATTICE_SHARE, LARGEST_LATTICE_SHARE):
        # The first factor is for the rounding of the stages' scales.
        mu = (1 - 1e-14) / gaussian_sigma(epsilon, delta * (1 - share))
        scales = [item.l2 / (math.sqrt(item.share) * mu) for item in items]
        drawn = [size for item, scale in zip(items, scales, strict=True) for size in item.sizes(scale)]
        if lattice_slack(epsilon, _total_variation(drawn)) <= share * delta:
            if min(scale for _, scale in drawn) >= SMALLEST_STEPS:
                return scales, False
            break
    rho = zcdp_rho(epsilon, delta) * (1 - 1e-12)
    return [_concentrated_scale(item, rho) for item in items], True


def _concentrated_scale(item: Integers | JointIntegers, rho: float) -> float:
    return item.l2 / math.sqrt(2 * rho * item.share)


def _total_variation(sizes: list[tuple[int, float]]) -> float:
    # The events round up. A part in 10^12 keeps them inside the reserve.
    return math.fsum(TOTAL_VARIATION * size / scale**2 for size, scale in sizes) * (1 + 1e-12)


def _textbook_scale(items: Sequence[Integers | JointIntegers], epsilon: float, delta: float) -> float:
    """Return algorithm 9.2.1's noise, sensitivity * sqrt(log(1/delta))/epsilon, where it is private."""
    if len(items) > 1:
        raise refuse("calibration", given="textbook", allowed="'exact' for more than a single release")
    item = items[0]
    scale = item.l2 * math.sqrt(math.log(1 / delta)) / epsilon
    actual = math.inf
    if scale >= SMALLEST_STEPS:
        actual = item.stage("gaussian", scale, Neighbors.REPLACE_ONE).event.profile(epsilon)
    if actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}: the printed noise of "
            f"algorithm 9.2.1 has an actual delta of {actual:.3g}, {actual / delta:.3g} times the one claimed "
            "(docs/errata.md); use calibration='exact'"
        )
    return scale
