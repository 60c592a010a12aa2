"""Base class of the releases that answer a workload: parameters, reading of rows or counts, and point answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.schema import Schema
from dpstats.errors import refuse
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.counted import domain_schema
from dpstats.queries.domain import Domain, check_domain
from dpstats.queries.linear import LinearQueries, Numbers
from dpstats.queries.marginals import MarginalQueries, check_tables
from dpstats.queries.synthetic import SyntheticDistribution
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters

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

    domain: Any = None
    workload: Any = 2
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
                    "domain",
                    given=workload,
                    allowed="declared for tables of attributes, or workload be LinearQueries",
                )
            return MarginalQueries(domain, check_tables("workload", workload, domain)), domain
        if domain is None:
            domain = workload.domain if isinstance(workload, MarginalQueries) else Domain([workload.size])
        if workload.size != domain.size:
            raise refuse(
                "workload",
                got=f"queries on {workload.size:,}",
                allowed=f"on the domain's {domain.size:,} cells",
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
