"""Releases that answer a workload and any linear queries: a distribution is fitted to noisy answers.

Proof: docs/proofs/workload-answers.md. Nikolov, Talwar and Zhang (2013), The geometry of differential privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import MOST_ROWS
from dpstats.data.parameters import check_integer, check_privacy_parameters, check_random_state
from dpstats.data.rows import Rows
from dpstats.data.schema import Schema
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.lattice import isqrt_up
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.domain import (
    Contrasts,
    Counts,
    Domain,
    MarginalQueries,
    Table,
    check_domain,
    check_tables,
    counts_of,
    domain_schema,
    places,
    residual_coefficients,
    whole_factor,
)
from dpstats.queries.linear import FRACTION_BITS, LinearQueries, Numbers
from dpstats.release.additive import Integers
from dpstats.release.estimator import PrivateEstimator, parameters

# A released distribution over a domain, which answers any query, and its fit to noisy answers.


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
    >>> from dpstats.queries.workload import SyntheticDistribution
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


# The base class: parameters, reading of rows or counts, and point answers

Plan = TypeVar("Plan", bound=ReleasePlan)
FULL_TABLE = 1 << 20
"""Largest number of cells of a domain for which distributions are computed."""


class _AnsweredFit(PrivateEstimator[Plan]):
    """Fitted attributes. This class has no parameters."""

    answers_: Numbers
    synthetic_: SyntheticDistribution | None


@parameters
class WorkloadRelease(_AnsweredFit[Plan], ABC):
    """Base class of the estimators that answer queries known in advance."""

    workload: Any = 2
    domain: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    @abstractmethod
    def plan(self, n_samples: int, n_features: int | None = None) -> Plan:
        """Return the release plan of a fit on data of this size."""

    def _schema(self) -> Schema:
        _, domain = self._asked()
        return domain_schema(domain, self.domain is not None, len(domain))

    def predict(self, queries: Any = None) -> Numbers:
        """Return point answers as proportions of the rows, in [0, 1], without additional privacy cost.

        Parameters
        ----------
        queries : LinearQueries on the domain, or tables of attributes as for ``workload``, optional
            Queries to answer. None: the workload. The error of other queries is not known: their answers are as uniform
            as the answers of the workload allow.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers, in the order of the queries.
        """
        check_is_fitted(self, "answers_")
        if queries is None:
            return self.answers_
        _, domain = self._asked()
        if not isinstance(queries, LinearQueries):
            queries = MarginalQueries(domain, check_tables("queries", queries, domain))
        _check_same("queries", queries, domain)
        if self.synthetic_ is None:
            raise refuse(
                "queries",
                allowed="in the workload",
                remedy=f"The domain has more than {FULL_TABLE:,} cells, too many to fit a distribution.",
            )
        return self.synthetic_.answers(queries)

    def _asked(self) -> tuple[LinearQueries, Domain]:
        """Return the queries and their domain."""
        domain = None if self.domain is None else check_domain("domain", self.domain)
        workload = self.workload
        if not isinstance(workload, LinearQueries):
            if domain is None:
                raise refuse(
                    "domain", given=workload, allowed="declared for tables of attributes, or workload be LinearQueries"
                )
            return MarginalQueries(domain, check_tables("workload", workload, domain)), domain
        if domain is None:
            domain = workload.domain if isinstance(workload, MarginalQueries) else Domain([workload.size])
        if workload.size != domain.size:
            raise refuse(
                "workload", got=f"queries on {workload.size:,}", allowed=f"on the domain's {domain.size:,} cells"
            )
        _check_same("workload", workload, domain)
        return workload, domain

    def _width(self, n_features: int | None) -> int:
        """Return the number of attributes, or raise an error if ``n_features`` differs."""
        _, domain = self._asked()
        d = len(domain) if n_features is None else check_integer("n_features", n_features, at_least=1)
        if d != len(domain):
            raise refuse("n_features", given=d, allowed=f"{len(domain)}, one per attribute of the domain")
        return d

    def _cost(self) -> tuple[float, float]:
        """Return epsilon and delta. Gaussian noise requires a positive delta."""
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if delta == 0:
            raise refuse("delta", given=self.delta, allowed="greater than 0", remedy="The noise is Gaussian.")
        return epsilon, delta

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Entries are labels with declared levels, not numbers.
        tags.input_tags.two_d_array, tags.input_tags.categorical = False, True
        return tags


def _check_same(name: str, queries: LinearQueries, domain: Domain) -> None:
    """Raise an error for tables of another domain, which may have the same number of cells."""
    if isinstance(queries, MarginalQueries) and not domain.same_as(queries.domain):
        raise refuse(
            name,
            got=f"tables of {queries.domain!r}",
            allowed=f"tables of the domain, with its attributes and levels in their order: {domain!r}",
        )


# One Gaussian release

ANSWERS = "answers"
_PAIRWISE = 1 << 12  # points up to which all pairs of columns are compared
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class GaussianRelease:
    """The release of the answers to linear queries. It is determined by the queries.

    Attributes
    ----------
    queries : LinearQueries
    domain : Domain
    n_samples : int
    """

    queries: LinearQueries
    domain: Domain
    n_samples: int

    title = "one Gaussian release of all answers"

    @property
    def full(self) -> bool:
        """Whether the domain is small enough for distributions over it."""
        return True

    def items(self) -> Integers:
        """Return the integers of the stage."""
        if self.queries.size > FULL_TABLE:
            points = f"queries on {self.queries.size:,}"
            raise refuse("workload", got=points, allowed=f"on at most {FULL_TABLE:,} points")
        # The sensitivity of all answers jointly is the largest distance of two columns.
        moved = isqrt_up(squared_column_distance(self.queries))
        most = len(self.queries) << FRACTION_BITS
        return Integers(ANSWERS, len(self.queries), 2.0**-FRACTION_BITS, l1=most, l2=max(moved, 1))

    def integers(self, rows: Rows) -> dict[str, Counts]:
        """Return the exact answers of private rows, or of their counts, in steps."""
        answers = np.asarray(self.queries.answers(counts_of(rows, self.domain.shape).ravel()))
        if answers.dtype.kind == "i":
            return {ANSWERS: answers << FRACTION_BITS}
        # Answers are multiples of 2^-20 below 2^32, so the conversion is exact.
        return {ANSWERS: as_int64(np.ldexp(answers, FRACTION_BITS))}

    def linear(self, released: Mapping[str, Any]) -> Numbers:
        """Return the unbiased answers, as counts."""
        return np.asarray(released[ANSWERS])

    def noise_std(self, plan: ReleasePlan) -> Numbers:
        """Return the standard deviation of the noise of each unbiased answer, as counts."""
        return np.full(len(self.queries), float(np.asarray(plan.noise(ANSWERS).std)))

    def fitted(self, released: Mapping[str, Any], plan: ReleasePlan, error: str) -> Fit | None:
        """Return the distribution whose answers are closest to the release."""
        noisy, n, queries = np.asarray(released[ANSWERS]), self.n_samples, self.queries
        precision = float(np.asarray(plan.noise(ANSWERS).std)) ** -2

        def distance(p: Numbers) -> tuple[Numbers, Numbers]:
            off = n * np.asarray(queries.answers(p[0]), dtype=np.float64) - noisy
            return np.array([precision * float(off @ off) / 2]), n * precision * queries.transpose(off)[None]

        return fit(distance, queries.size, len(queries))


def squared_column_distance(queries: LinearQueries) -> int:
    """Return an upper bound on the squared distance of any two columns of the query matrix, in steps of 2^-20.

    Up to 4,096 points it compares all pairs. Above, it uses that values in [0, 1] differ by at most 1 in every query.
    """
    one, size = 1 << 2 * FRACTION_BITS, queries.size
    if size > _PAIRWISE:
        return len(queries) * one
    products, rows = np.zeros((size, size)), max(1, _BLOCK // size)
    for start in range(0, len(queries), rows):
        block = np.array([queries.query(j) for j in range(start, min(start + rows, len(queries)))])
        products += block.T @ block
    squares = np.diagonal(products)
    largest = float((squares[:, None] + squares[None, :] - 2 * products).max())
    # Sums of 0/1 values are exact. Other sums have a rounding error with one term per query.
    rounding = 0.0 if queries.is_counting else 8 * len(queries) * 2.0**-52 * float(squares.max())
    return min(math.ceil((largest + rounding) * one), len(queries) * one)
