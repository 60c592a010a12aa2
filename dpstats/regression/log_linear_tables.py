"""Public functions of a log-linear path, over the linear predictor, under a working distribution.

Working distributions of the offsets and of the linear predictor come first, then tables over them. Everything depends
on released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpstats.regression.log_linear_plan import SIZE_CLIP, Bound, Curves, Family
from dpstats.regression.passes import Floats

# Offsets: a beta distribution between their bounds, with the released mean

Nodes = tuple[Floats, Floats]
"""Values and their weights."""

_CONCENTRATIONS = np.exp2(np.arange(-6.0, 8.5, 0.5))
"""Concentrations that a fit chooses from: from two values at the ends to nearly one value."""
_BETA_NODES = 5
_FORM = 0.25
"""Relative error of the logarithm of the mean exposure over the geometric mean."""
_CLOSEST = 1e-4
"""Least distance of a mean from the end of the range, in half-widths."""


def combine(first: Nodes, second: Nodes) -> tuple[tuple[float, float], ...]:
    """Return the values and weights of the sum of two independent numbers."""
    values = np.add.outer(first[0], second[0]).ravel()
    return tuple(zip(values.tolist(), np.outer(first[1], second[1]).ravel().tolist(), strict=True))


@dataclass(frozen=True)
class Offsets:
    """The working distribution of the offsets of rows.

    Attributes
    ----------
    half : float
        Half-width of the range of the offsets: 0 if rows have none.
    mean, noise : float
        Their released mean about the middle of the range, and its noise, in half-widths.
    concentration : float
        Sum of the two parameters over the sum for which the smaller one is 1.
    """

    half: float = 0.0
    mean: float = 0.0
    noise: float = 0.0
    concentration: float = 1.0

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes of the distribution about the released mean, and their weights."""
        if self.half == 0:
            return np.zeros(1), np.ones(1)
        # With the concentration 1 exposures from 0 on have a density that is a power, or offsets the mirror image.
        near = 1 - max(1 - abs(self.mean), min(self.noise, 1.0), _CLOSEST)
        at, weights = _gauss_jacobi((1 + near) / (1 - near) * self.concentration, self.concentration)
        return self.half * math.copysign(1.0, self.mean) * (at - weights @ at), weights

    @property
    def error(self) -> float:
        """Standard deviation of the error of the log mean outcome because the form of the distribution is not known."""
        at, weights = self.nodes
        most = float(at.max())
        return _FORM * (most + math.log(float(weights @ np.exp(at - most))))

    def fit(self, expect: Callable[[Offsets], float], seen: float, noise: float) -> Offsets:
        """Return the distribution that best fits a noisy mean over rows, which ``expect`` predicts."""
        each = [replace(self, concentration=float(size)) for size in _CONCENTRATIONS]
        off = (np.array([expect(part) for part in each]) - seen) / noise
        # The weak preference decides if the mean does not depend on offsets, as the curvature for amounts.
        return each[int(np.argmin(off**2 + np.log(_CONCENTRATIONS) ** 2))]


def _gauss_jacobi(a: float, b: float) -> Nodes:
    """Return nodes on [-1, 1] of the beta distribution with density proportional to (1 + u)^(a - 1) (1 - u)^(b - 1)."""
    # Golub and Welsch: eigenvalues of the recurrence of the orthogonal polynomials. The weights add up to 1, where
    # scipy.special.roots_jacobi returns NaN for means near a bound.
    k, total = np.arange(1.0, _BETA_NODES), a + b
    at = 2 * k + total - 2
    own = np.append((a - b) / total, (a - b) * (total - 2) / (at * (at + 2)))
    beside = 4 * k * (k + a - 1) * (k + b - 1) / (at**2 * (at + 1))
    beside *= np.append(1.0, (k[1:] + total - 2) / (at[1:] - 1))
    values, vectors = np.linalg.eigh(np.diag(own) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return values, vectors[0] ** 2


# Linear predictors, and functions of them

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
    spread : float
        Standard deviation over rows of a cell.
    largest : float
        Logarithm of the largest allowed outcome.
    """

    center: float
    spread: float
    largest: float
    cells: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """Shift from the center, and fraction of rows, of cells that have their own nodes.

    A cell has the same values of columns with two values, and the same offset. ``spread`` describes the other columns.
    """

    near: float = _NEAR
    """Rows within this many standard deviations of the center have their own curvature and expected residual."""

    def quadrature(self) -> tuple[Floats, Floats, Floats]:
        """Return nodes, their weights, and the part of each node that belongs to rows above the center."""
        shifts, shares = np.array(self.cells).T[..., None]
        at = (shifts + min(self.spread, _FARTHEST_NODES) * _NODES).ravel()
        weights = (shares * WEIGHTS).ravel()
        return self.center + at, weights, np.where(np.abs(at) < 1e-9, 0.5, at > 0)

    @property
    def deviation(self) -> float:
        """Standard deviation over rows, at most the largest that a quadrature uses."""
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
    most_weight : float
        Largest factor of a row in a step at the nodes.
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
    most_weight: Any


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
        at_weight.max(axis=-1),
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
