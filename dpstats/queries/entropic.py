"""Least squares fits of distributions to noisy answers, by entropic mirror descent from the uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstats.queries.linear import Numbers

# A step is p <- p e^(-step gradient), normalized. The fit starts uniform and moves in the directions that the answers
# support. Stopping early keeps noise out of the directions about which the answers have little information.

Evaluate = Callable[[Numbers], tuple[Numbers, Numbers]]
"""Maps distributions (draws, size) to misfits (draws,), half sums of squares, and their gradients (draws, size)."""

_LEAST = 1e-300
_GROW, _SHRINK = 1.5, 0.5
_LEAST_STEPS, _MOST_STEPS, _ENTRIES = 128, 1000, 1 << 27
_TOLERANCE = 0.01  # fraction of the degrees of freedom
_FAR = 4.0  # standard deviations of chi-square that noise almost never exceeds


@dataclass(frozen=True, eq=False)
class Fit:
    """A distribution fitted to noisy answers.

    Attributes
    ----------
    p : array of shape (size,)
        Probabilities.
    reached : bool
        Whether its misfit is as small as the noise explains. If not, there were too few steps for so little noise.
    """

    p: Numbers
    reached: bool


def fit(evaluate: Evaluate, size: int, freedom: int, enough: float = 0.0) -> Fit:
    """Fit a distribution to answers, starting from the uniform one. The misfit of the truth is chi-square/2.

    Parameters
    ----------
    evaluate : callable
        Returns misfits and gradients.
    size : int
        Size of the distribution.
    freedom : int
        Degrees of freedom of the chi-square distribution.
    enough : float
        The same as in `descend`.
    """
    tolerance = _TOLERANCE * min(freedom, size)
    # With a million cells, a step takes a fifth of a second.
    steps = min(_MOST_STEPS, max(_LEAST_STEPS, _ENTRIES // size))
    p = descend(evaluate, uniform(1, size), enough=enough, tolerance=tolerance, steps=steps)
    most = freedom + _FAR * math.sqrt(2 * freedom)
    return Fit(p[0], 2 * float(evaluate(p)[0][0]) <= most)


def descend(
    evaluate: Evaluate,
    start: Numbers,
    *,
    enough: float = 0.0,
    tolerance: float = 0.0,
    steps: int = _MOST_STEPS,
) -> Numbers:
    """Return distributions with small misfits.

    Parameters
    ----------
    evaluate : callable
        Returns misfits and gradients.
    start : array of shape (draws, size)
        Initial distributions, each for a separate problem.
    enough : float
        Target misfit, at which the descent stops: the misfit that noise explains.
    tolerance : float
        Largest excess over the minimal misfit. The mean excess of the gradient over its smallest entry bounds it.
    steps : int
        Maximal number of evaluations.
    """
    p = start
    logs = np.log(np.maximum(p, _LEAST))
    misfit, gradient = evaluate(p)
    # Steps are in units in which the range of the gradient is one.
    step = 1 / np.maximum(np.ptp(gradient, axis=1), _LEAST)
    for _ in range(steps):
        excess = (gradient * p).sum(axis=1) - gradient.min(axis=1)
        left = (misfit > enough) & (excess > tolerance)
        if not left.any():
            break
        moved = logs - step[:, None] * (gradient - gradient.min(axis=1, keepdims=True))
        moved -= moved.max(axis=1, keepdims=True)
        q = np.exp(moved)
        whole = q.sum(axis=1, keepdims=True)
        q /= whole
        found, slope = evaluate(q)
        # Accept a step that gains at least half of the linear prediction.
        taken = left & (found <= misfit - (gradient * (p - q)).sum(axis=1) / 2)
        keep = taken[:, None]
        p, logs = (
            np.where(keep, q, p),
            np.where(keep, np.maximum(moved - np.log(whole), np.log(_LEAST)), logs),
        )
        misfit, gradient = np.where(taken, found, misfit), np.where(keep, slope, gradient)
        step = step * np.where(taken, _GROW, _SHRINK)
    return p


def uniform(draws: int, size: int) -> Numbers:
    """Return uniform distributions: shape (draws, size)."""
    return np.full((draws, size), 1 / size)
