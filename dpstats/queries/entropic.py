"""Distributions that fit noisy answers, of least squares among all distributions, from the uniform one on.

Entropic mirror descent: p <- p e^(-step gradient), normalised. It starts uniform and moves where the answers say so, so
that stopping early leaves the noise of what they say little about.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Evaluate = Callable[[Numbers], tuple[Numbers, Numbers]]
"""Maps distributions (draws, size) to misfits (draws,), sums of squares halved, and their gradients (draws, size)."""

_LEAST = 1e-300
_GROW, _SHRINK = 1.5, 0.5
_LEAST_STEPS, _MOST_STEPS, _ENTRIES = 128, 1000, 1 << 27
_TOLERANCE = 0.01  # of the degrees of freedom
_FAR = 4.0  # deviations of chi-square that noise has next to never


@dataclass(frozen=True, eq=False)
class Fit:
    """A distribution that was fitted to noisy answers.

    Attributes
    ----------
    p : array of shape (size,)
    reached : bool
        Whether it is as near to them as noise is to the truth; if not, there were too few steps for so little noise.
    """

    p: Numbers
    reached: bool


def fit(evaluate: Evaluate, size: int, freedom: int, enough: float = 0.0) -> Fit:
    """Fit one distribution, from the uniform one on, to answers whose misfit at the truth is chi-square/2.

    Parameters
    ----------
    evaluate : callable
    size : int
        Of the distribution.
    freedom : int
        Degrees of freedom of that chi-square.
    enough : float
        As for `descend`.
    """
    tolerance = _TOLERANCE * min(freedom, size)
    # On a million cells a step is a fifth of a second.
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
    """Return distributions of small misfit.

    Parameters
    ----------
    evaluate : callable
    start : array of shape (draws, size)
        Distributions to start from, each for a problem of its own.
    enough : float
        A misfit that is not gone below: what noise alone would leave.
    tolerance : float
        How far above the least misfit may be; it is at most the gradient's excess over its least entry.
    steps : int
        Evaluations at most.
    """
    p = start
    logs = np.log(np.maximum(p, _LEAST))
    misfit, gradient = evaluate(p)
    # Steps are in units in which the gradient's spread is one.
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
        # A step that gains at least half of what the gradient promises is taken.
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
