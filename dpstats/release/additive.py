"""Stages of additive noise: calibrated on a lattice, drawn once, put back into units.

The two halves that every release of integers shares: `additive_stages` turns sensitivities in
steps and a guarantee into stages of a plan, and `release` adds a stage's noise to integers.

Proofs: docs/proofs/laplace.md and docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidParameter, NotPrivate
from dpstats.privacy.events import ZCDP, DiscreteLaplace, Gaussian, lattice_slack
from dpstats.privacy.gaussian import LARGEST_LATTICE_SHARE, LATTICE_SHARE, gaussian_sigma
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.plan import Stage
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.release.noise import Noise, Size, check_scale

TOTAL_VARIATION = 0.021
"""Total variation, per coordinate, between discrete Gaussian noise of s >= 10 steps and rounded continuous noise is
below this over s^2 (docs/proofs/gaussian.md)."""

_SMALLEST_SCALE = 10.0


@dataclass(frozen=True)
class Statistic:
    """What a stage will be about: a vector of integers with a known sensitivity.

    ``l1`` and ``l2`` are sensitivities in steps, ``spacing`` the length of a step in the units of
    the release, ``share`` the part of the privacy it gets (of epsilon, or of mu^2).
    """

    name: str
    size: int
    spacing: float | tuple[float, ...]
    l1: int
    l2: int
    share: float = 1.0


def additive_stages(
    statistics: Sequence[Statistic],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    calibration: str = "exact",
) -> tuple[Stage, ...]:
    """Return the stages that release the statistics at a total of (epsilon, delta).

    delta = 0 gives Laplace noise; delta > 0 gives Gaussian noise from the exact curve, or through
    zero-concentrated privacy where the lattice is too coarse for that curve.
    ``calibration="textbook"`` gives the source text's constants, where they are private. A scale
    that cannot be drawn raises here, long before a charge.
    """
    if delta == 0:
        stages = tuple(_laplace_stage(item, epsilon, len(statistics), neighbors) for item in statistics)
    elif calibration == "textbook":
        stages = (_textbook_stage(statistics, epsilon, delta, neighbors),)
    else:
        stages = _gaussian_stages(statistics, epsilon, delta, neighbors)
    for stage in stages:
        check_scale(stage.scale_steps)
    return stages


def _laplace_stage(item: Statistic, epsilon: float, count: int, neighbors: Neighbors) -> Stage:
    # Shares of a float epsilon can add up to one unit in the last place too much.
    share = item.share * epsilon * (1 - 2.0**-50) if count > 1 else epsilon
    scale = quotient_up(item.l1, share)
    event = DiscreteLaplace(item.l1, scale, neighbors=neighbors)
    return Stage(item.name, "laplace", item.size, item.spacing, item.l1, scale, event)


def quotient_up(numerator: int, denominator: float) -> float:
    """Return a float that is at least the real quotient."""
    quotient = numerator / denominator
    if quotient > 1e300:
        return quotient  # far beyond what can be drawn
    while Fraction(quotient) * Fraction(denominator) < numerator:
        quotient = math.nextafter(quotient, math.inf)
    return quotient


def _gaussian_stages(
    statistics: Sequence[Statistic], epsilon: float, delta: float, neighbors: Neighbors
) -> tuple[Stage, ...]:
    def at(mu: float) -> tuple[Stage, ...]:
        return tuple(
            _gaussian_stage(item, item.l2 / (math.sqrt(item.share) * mu), neighbors) for item in statistics
        )

    # The part of delta that is set aside for the noise being discrete is a budget's, so that a plan for a
    # whole budget fits it; more of it only where this lattice needs more.
    for share in (LATTICE_SHARE, LARGEST_LATTICE_SHARE):
        # The first factor is for the rounding of the stages' scales.
        stages = at((1 - 1e-14) / gaussian_sigma(epsilon, delta * (1 - share)))
        variation = math.fsum(_total_variation(stage) for stage in stages)
        if lattice_slack(epsilon, variation) <= share * delta:
            if min(stage.scale_steps for stage in stages) >= _SMALLEST_SCALE:
                return stages
            break
    rho = zcdp_rho(epsilon, delta) * (1 - 1e-12)
    return tuple(_concentrated_stage(item, rho, neighbors) for item in statistics)


def _concentrated_stage(item: Statistic, rho: float, neighbors: Neighbors) -> Stage:
    scale = item.l2 / math.sqrt(2 * rho * item.share)
    event = ZCDP((item.l2 / scale) ** 2 / 2, neighbors=neighbors)
    return Stage(item.name, "gaussian", item.size, item.spacing, item.l2, scale, event)


def _gaussian_stage(item: Statistic, scale: float, neighbors: Neighbors) -> Stage:
    variation = TOTAL_VARIATION * item.size / scale**2
    event = Gaussian(item.l2 / scale, variation, neighbors=neighbors)
    return Stage(item.name, "gaussian", item.size, item.spacing, item.l2, scale, event)


def _total_variation(stage: Stage) -> float:
    return stage.event.total_variation if isinstance(stage.event, Gaussian) else 0.0


def _textbook_stage(
    statistics: Sequence[Statistic], epsilon: float, delta: float, neighbors: Neighbors
) -> Stage:
    """Return algorithm 9.2.1's noise, sensitivity * sqrt(log(1/delta))/epsilon, where it is private."""
    if len(statistics) > 1:
        raise InvalidParameter("calibration='textbook' covers a single release; use calibration='exact'")
    item = statistics[0]
    stage = _gaussian_stage(item, item.l2 * math.sqrt(math.log(1 / delta)) / epsilon, neighbors)
    actual = stage.event.profile(epsilon)
    if stage.scale_steps < _SMALLEST_SCALE or actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}: the printed noise of "
            f"algorithm 9.2.1 has an actual delta of {actual:.3g}, {actual / delta:.3g} times the one claimed "
            "(docs/errata.md); use calibration='exact'"
        )
    return stage


def release(stage: Stage, steps: NDArray[Any], noise: Noise, size: int | None = None) -> NDArray[np.float64]:
    """Add a stage's noise to integer statistics and return the release, in its units.

    Parameters
    ----------
    stage : Stage
    steps : array of shape (stage.size,)
        The exact statistic, in steps; int64 or Python integers.
    noise : Noise
    size : int, optional
        How many independent releases to draw; for simulations and audits. None is one.

    Returns
    -------
    array of shape (stage.size,), or (size, stage.size)
    """
    shape: Size = (stage.size,) if size is None else (size, stage.size)
    draw = noise.laplace if stage.noise == "laplace" else noise.gaussian
    noisy = steps + draw(stage.scale_steps, shape)
    if noisy.dtype == object:
        return to_units(noisy, Fraction(float(np.asarray(stage.spacing))))
    return noisy.astype(np.float64) * np.asarray(stage.spacing)


def to_units(noisy: NDArray[Any], spacing: Fraction) -> NDArray[np.float64]:
    """Put Python integers back into units; what exceeds the largest float becomes that float."""
    largest = Fraction(np.finfo(np.float64).max)
    values = [float(max(-largest, min(largest, number * spacing))) for number in noisy.ravel()]
    return np.array(values).reshape(noisy.shape)
