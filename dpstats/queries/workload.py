"""Releases that answer a workload, and any linear queries from one Gaussian release, projected onto distributions.

Proof: docs/proofs/workload-answers.md. Nikolov, Talwar and Zhang (2013), The geometry of differential privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.rows import Rows
from dpstats.data.schema import Schema
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.lattice import isqrt_up
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.domain import Counts, Domain, check_domain, counts_of, domain_schema
from dpstats.queries.linear import FRACTION_BITS, LinearQueries, Numbers
from dpstats.queries.marginals import MarginalQueries, check_tables
from dpstats.queries.synthetic import Fit, SyntheticDistribution, fit
from dpstats.release.additive import Integers
from dpstats.release.estimator import PrivateEstimator, parameters

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
