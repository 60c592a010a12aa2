"""Public functions of a log-linear path, over the linear predictor, under a working distribution.

Source: breadth.md of the design, section 3.3. Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpstats.regression.bins import Floats
from dpstats.regression.families import Bound, Family
from dpstats.regression.log_linear_rows import SIZE_CLIP, Curves

_NEAR = 2.5
FAR = 8.0
"""Largest distance of near rows from the center, in standard deviations, and the same if noise is negligible."""
_FARTHEST_NODES = 2.5
"""Largest standard deviation of the linear predictor that a quadrature uses."""
_NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Predictors:
    """Released moments of the linear predictor over rows.

    Attributes
    ----------
    center : float
        The linear predictor of a row at the center, with the average offset.
    spread, total : float
        Standard deviation over rows, without and with offsets.
    largest : float
        Logarithm of the largest allowed outcome.
    """

    center: float
    spread: float
    total: float
    largest: float
    cells: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """Shift from the center, and fraction of rows, of the cells of columns with two values that have their own nodes.

    ``spread`` and ``total`` describe the other columns.
    """

    near: float = _NEAR
    """Rows within this many standard deviations of the center have their own curvature and expected residual."""

    def quadrature(self) -> tuple[Floats, Floats, Floats]:
        """Return nodes, their weights, and the part of each node that belongs to rows above the center."""
        shifts, shares = np.array(self.cells).T[..., None]
        at = (shifts + min(self.total, _FARTHEST_NODES) * _NODES).ravel()
        weights = (shares * WEIGHTS).ravel()
        return self.center + at, weights, np.where(np.abs(at) < 1e-9, 0.5, at > 0)

    @property
    def deviation(self) -> float:
        """Standard deviation over rows without offsets, at most the largest that a quadrature uses."""
        parts = (shift * math.sqrt(share) for shift, share in self.cells)
        return min(math.hypot(self.spread, *parts), _FARTHEST_NODES)

    @property
    def reach(self) -> float:
        """The largest distance of a cell from the center."""
        return max(abs(shift) for shift, _ in self.cells)


@dataclass(frozen=True, eq=False)
class Tables:
    """Functions of the linear predictor, and what a path needs to know of them. For several widths, arrays.

    Attributes
    ----------
    nodes, weights, above : array of shape (n_nodes,)
        Linear predictors of the quadrature over rows, their weights, and the part of each above the center.
    scale : float
        Weight times threshold of a row at the center.
    curvature : float
        Expected curvature of a typical row, in its units.
    most_curved : float
        Largest curvature of a row near the center.
    most_pull : float
        Largest absolute expected clipped residual near the center, over its threshold.
    bias : float
        Error of the log mean if the expected clipped residual were left out.
    """

    curves: Curves
    nodes: Floats
    weights: Floats
    above: Floats
    scale: Any
    curvature: Any
    most_curved: Any
    most_pull: Any
    bias: Any


@lru_cache(maxsize=1024)
def tabulate(
    family: Family,
    predictors: Predictors,
    dispersion: tuple[float, float],
    width: float | tuple[float, ...],
    points: int = 241,
    clipped: float = 0.0,
) -> Tables:
    """Tabulate the public functions for one clipping threshold, or for several along a first axis.

    ``clipped`` is the part of the outcomes above the largest allowed one, under the working distribution, that are
    clipped to it.

    The result depends on the arguments only, so the replay of a path looks up the tables of the release.
    """
    widths: Any = np.array(width)[:, None] if isinstance(width, tuple) else width
    center, largest = predictors.center, predictors.largest
    low = max(center - max(6.0, predictors.reach + 1), largest - 25)
    farthest = max(5.0, predictors.reach + 1, predictors.near * predictors.deviation)
    high = max(min(center + farthest, largest), low + 1)
    spacing = (high - low) / (points - 1)
    mean = np.exp(low + spacing * np.arange(points))
    clip, weight = family.clip(mean, widths, dispersion), family.weight(mean)
    bound = Bound(math.exp(largest), clipped)
    pull = family.clipped_mean(mean, mean, clip, dispersion, bound) / clip
    step = 0.02
    ahead, behind = (
        family.clipped_mean(mean * math.exp(sign * step), mean, clip, dispersion, bound) for sign in (1, -1)
    )
    # Slope of the clipped residual, in thresholds
    slope = np.maximum((ahead - behind) / (2 * step) / clip, 1e-9)
    size = weight * clip
    curves = Curves(low, spacing, mean, family.std(mean, dispersion), clip, pull, size, slope)
    sd, center = predictors.deviation, min(max(center, low), high)
    scale = curves.evaluate(np.array([center]), "weight")[0][..., 0]
    curves = replace(curves, weight=size / scale[..., None])
    end = low + spacing * (points - 1)
    nodes, weights, above = predictors.quadrature()
    nodes = np.clip(nodes, low, end)
    at_weight, at_slope, at_pull = curves.evaluate(nodes, "weight", "curved", "pull")
    ratio = slope / size * (scale**2)[..., None]
    near = np.abs(curves.points() - center) <= max(predictors.near * sd, 0.1) + spacing
    most_curved = ratio[..., near].max(axis=-1)
    most_pull = np.abs(pull[..., near]).max(axis=-1)
    return Tables(
        replace(
            curves,
            curved=np.minimum(ratio / most_curved[..., None], 1.0),
            pull=np.clip(pull, -most_pull[..., None], most_pull[..., None]),
        ),
        nodes,
        weights,
        above,
        scale,
        scale * ((at_weight * at_slope) @ weights),
        most_curved,
        most_pull,
        (np.abs(at_pull) / at_slope) @ weights,
    )


@lru_cache(maxsize=1024)
def expect_sizes(
    family: Family, tables: Tables, dispersion: tuple[float, float], off: float = 0.0, every: bool = False
) -> tuple[Any, Any]:
    """Return the expected sizes of residuals below and above the middle, if the log mean is higher by ``off``.

    With ``every``, under each dispersion that the family chooses from. Sizes are in units of ``dispersion``.
    """
    at = np.exp(tables.nodes)
    most = SIZE_CLIP * family.std(at, dispersion)
    under: Any = tuple(part[..., None] for part in family.dispersions()) if every else dispersion
    share = family.absolute(at * math.exp(off), at, under, most) / most
    return share @ (tables.weights * (1 - tables.above)), share @ (tables.weights * tables.above)
