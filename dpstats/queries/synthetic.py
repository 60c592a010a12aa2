"""A released distribution over a domain, which answers any query, and its fit to noisy answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpstats.data.opening import MOST_ROWS
from dpstats.data.parameters import check_integer, check_random_state
from dpstats.errors import refuse
from dpstats.queries.domain import Domain
from dpstats.queries.linear import LinearQueries, Numbers
from dpstats.queries.marginals import Contrasts, Table, places, residual_coefficients, whole_factor


@dataclass(frozen=True, eq=False)
class SyntheticDistribution:
    """Released distribution over a domain. It is post-processing, without additional privacy cost.

    Attributes
    ----------
    domain : Domain
        Attributes and their levels.
    probabilities : ndarray of the domain's shape
        Probabilities of the cells. They are not negative and add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import Domain
    >>> from dpstats.queries.synthetic import SyntheticDistribution
    >>> domain = Domain({"smokes": ["yes", "no"], "sex": ["f", "m"]})
    >>> made = SyntheticDistribution(domain, np.array([[0.1, 0.1], [0.4, 0.4]]))
    >>> made.sample(3, random_state=0).values.tolist()
    [['no', 'm'], ['no', 'f'], ['yes', 'f']]
    """

    domain: Domain
    probabilities: Numbers = field(repr=False)

    def answers(self, queries: LinearQueries) -> Numbers:
        """Return the answers to queries on the domain: shape (n_queries,), in [0, 1]."""
        if queries.size != self.domain.size:
            raise refuse(
                "queries", got=f"queries on {queries.size:,}", allowed=f"on the domain's {self.domain.size:,} cells"
            )
        return np.clip(np.asarray(queries.answers(self.probabilities.ravel()), dtype=np.float64), 0.0, 1.0)

    def sample(self, n: int, random_state: Any = None, backend: str = "pandas") -> Any:
        """Draw n independent rows from the distribution into a data frame, without additional privacy cost.

        The rows have the errors of this distribution, plus the sampling error of n rows. Intervals computed from them
        would include neither the noise nor the sampling error of the real rows.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : None, int or numpy.random.Generator, default=None
            Seed of the drawing. It does not affect privacy.
        backend : str, default="pandas"
            Library of the data frame: "pandas", "polars" or "pyarrow".
        """
        count = check_integer("n", n, at_least=1, at_most=MOST_ROWS)
        rng = check_random_state(random_state) or np.random.default_rng()
        cumulative = np.cumsum(self.probabilities.ravel())
        places = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        return self.domain.rows(np.minimum(places, self.domain.size - 1), backend)


# A step is p <- p e^(-step gradient), normalized. The fit starts uniform and moves in the directions that the answers
# support. Stopping early keeps noise out of the directions about which the answers have little information.

Evaluate = Callable[[Numbers], tuple[Numbers, Numbers]]
"""Maps distributions (draws, size) to misfits (draws,), half sums of squares, and their gradients (draws, size)."""


# Least squares fits, by entropic mirror descent from the uniform distribution

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
    evaluate: Evaluate, start: Numbers, *, enough: float = 0.0, tolerance: float = 0.0, steps: int = _MOST_STEPS
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
        p, logs = (np.where(keep, q, p), np.where(keep, np.maximum(moved - np.log(whole), np.log(_LEAST)), logs))
        misfit, gradient = np.where(taken, found, misfit), np.where(keep, slope, gradient)
        step = step * np.where(taken, _GROW, _SHRINK)
    return p


def uniform(draws: int, size: int) -> Numbers:
    """Return uniform distributions: shape (draws, size)."""
    return np.full((draws, size), 1 / size)


# Noisy residuals of tables, and how well distributions fit them


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy contrasts of a table of n rows.

    Attributes
    ----------
    contrasts : Contrasts
        The transform.
    coefficients : array of shape (draws, *shape)
        Released coefficients, and 0 for the others.
    precisions : array of shape (draws, *shape), or (*shape,)
        Inverse variances of their noise, and 0 for coefficients that were not released.
    n_samples : int
        Public number of rows.
    """

    contrasts: Contrasts
    coefficients: Numbers
    precisions: Numbers
    n_samples: int

    @property
    def degrees_of_freedom(self) -> int:
        """Number of released coefficients."""
        return int(np.count_nonzero(self.precisions))

    def evaluate(self) -> Evaluate:
        """Return the function that maps distributions to half of their chi-square, and its gradient."""
        shape, n = self.contrasts.shape, self.n_samples

        def chi_square(p: Numbers) -> tuple[Numbers, Numbers]:
            off = n * self.contrasts.coefficients(p.reshape(-1, *shape)) - self.coefficients
            weighted = self.precisions * off
            misfit = (weighted * off).reshape(len(p), -1).sum(axis=1) / 2
            return misfit, n * self.contrasts.tables(weighted).reshape(p.shape)

        return chi_square


def measured(
    residuals: Mapping[Table, Numbers], weights: Mapping[Table, float], shape: Sequence[int], n_samples: int
) -> Measured:
    """Return residuals with noise variance 1/weight per cell, as measurements of the full table."""
    coefficients, precisions = np.zeros((1, *shape)), np.zeros(shape)
    cells = math.prod(shape)
    for table, values in residuals.items():
        others = cells // whole_factor(table, shape)
        at = places(table, shape)
        coefficients[(0, *at)] = residual_coefficients(values) / math.sqrt(others)
        precisions[at] = weights[table] * others
    return Measured(Contrasts(shape), coefficients, precisions, n_samples)
