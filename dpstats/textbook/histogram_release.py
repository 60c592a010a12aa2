"""Base class of releases that turn a histogram into a distribution, with a bound on the error of every answer."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import MOST_ROWS
from dpstats.data.parameters import check_integer, check_random_state
from dpstats.data.rows import Rows
from dpstats.data.schema import Schema
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import ChosenLimits, usual_level
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.multiple_testing import AtOnce
from dpstats.inference.results import Summary
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.domain import Domain, check_domain, counts_of, domain_schema
from dpstats.queries.linear import LinearQueries, Numbers, query_values
from dpstats.release.estimator import PrivateEstimator, parameters

Plan = TypeVar("Plan", bound=ReleasePlan)

_SHOWN = 20  # queries of a summary
_BOUND = AtOnce("the bound, which holds for all answers at once")


class _SyntheticFit(PrivateEstimator[Plan]):
    """Fitted attributes. This class has no parameters."""

    queries: Any
    synthetic_: Numbers
    error_bound_: float


@parameters
class HistogramRelease(_SyntheticFit[Plan], ABC):
    """Base class of the estimators that release a distribution on a finite universe."""

    _one_column = True

    domain: Any = None
    beta: float = 0.05
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def _schema(self) -> Schema:
        domain = self._domain()
        if domain is None:
            return Schema(counted=True)
        return domain_schema(domain, n_features=domain.size)

    def _domain(self) -> Domain | None:
        return None if self.domain is None else check_domain("domain", self.domain)

    def _histogram(self, rows: Rows, size: int | None = None) -> NDArray[np.int64]:
        """Return the histogram of the rows on the universe of the queries, or raise an error."""
        domain = self._domain()
        counts = counts_of(rows, (-1,) if domain is None else domain.shape).ravel()
        if size is not None and counts.size != size:
            raise refuse_data(
                "X",
                got=f"{counts.size:,}",
                allowed=f"have a count for each of the {size:,} points that the queries are about",
            )
        return counts

    # Results from the distribution

    def _bound_facts(self, size: int, facts: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Return the facts of a summary: the universe, further facts, and the bound of all errors."""
        within = f"{self.error_bound_:.4g} of the data's, but for probability {self.beta:g}"
        return [*self._public_facts(("Universe", f"{size:,} points")), *facts, ("Every answer within", within)]

    def predict(self, queries: Any = None) -> Numbers:
        """Return the answers to queries as proportions of all rows, without additional privacy cost.

        Parameters
        ----------
        queries : LinearQueries, array of shape (n_queries, size), or array of shape (size,), optional
            Queries to answer. None: the declared queries. `error_bound_` holds for these only.

        Returns
        -------
        array of shape (n_queries,)
            Answers, in the order of the queries.
        """
        check_is_fitted(self, "plan_")
        return self._answered(self._declared() if queries is None else as_queries(queries, self.synthetic_.size))

    def _answered(self, queries: LinearQueries) -> Numbers:
        return np.asarray(queries.answers(self.synthetic_), dtype=np.float64)

    def _declared(self) -> LinearQueries:
        """Return the declared queries."""
        if self.queries is None:
            raise refuse(
                "queries", allowed="given", remedy="Declare LinearQueries, or a matrix of shape (n_queries, size)."
            )
        return as_queries(self.queries)

    def sample(self, n: int, random_state: Any = None) -> Any:
        """Draw synthetic rows from the distribution, without additional privacy cost.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : None, int or numpy.random.Generator, default=None
            Seed of the drawing. It does not affect privacy.

        Returns
        -------
        array of n positions of points in the universe, or with a ``domain`` a data frame of rows
        """
        check_is_fitted(self, "plan_")
        n = check_integer("n", n, at_least=1, at_most=MOST_ROWS)
        rng = check_random_state(random_state) or np.random.default_rng()
        shares = np.maximum(self.synthetic_, 0.0)
        points = rng.choice(shares.size, size=n, p=shares / shares.sum())
        domain = self._domain()
        return points if domain is None else domain.rows(points)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


@dataclass(frozen=True, eq=False)
class BoundedErrors(ChosenLimits):
    """Errors that a bound holds for, at one level: intervals of a lower level are the same."""

    def confirm_level(self, confidence_level: float | None) -> float:
        level = usual_level(self.level if confidence_level is None else confidence_level)
        if level > self.level + 1e-12:
            raise refuse(
                "confidence_level",
                given=level,
                allowed=f"at most 1 - beta = {self.level:g}, which the release was planned for",
            )
        return self.level


class BoundedAnswers(HasEstimates, HistogramRelease[Plan]):
    """Base class of the estimators whose bound holds for all declared queries together."""

    def estimates(self) -> Estimates:
        """Return the answers to all declared queries, ``predict()`` plus and minus ``error_bound_``, within [0, 1].

        Intervals are simultaneous, at level 1 - beta. They include noise, but not sampling error.
        """
        return self._estimates()

    def _estimates(self, first: int | None = None) -> Estimates:
        """Return the first answers."""
        answers, bound, queries = self.predict()[:first], self.error_bound_, self._declared()
        ends = np.clip(answers - bound, 0.0, 1.0), np.clip(answers + bound, 0.0, 1.0)
        more = queries.n_queries - answers.size
        return Estimates(
            answers,
            np.full(answers.shape, np.nan),
            tuple(queries.label(j) for j in range(answers.size)),
            "the answers on these data",
            BoundedErrors(answers, *ends, 1 - self.beta),
            title="Private answers to linear queries",
            header="share",
            facts=[*self._bound_facts(queries.size, self._facts())],
            notes=[*self._notes(), *([f"{more:,} more queries: predict()."] if more else [])],
            together=_BOUND,
            jointly=True,
            simulated=self.privacy_.simulated,
        )

    def _facts(self) -> list[tuple[str, str]]:
        """Return further facts about the fit, as text."""
        return []

    def _notes(self) -> list[str]:
        notes = [
            "Intervals hold for all of these queries together; they include the noise, and not the sampling error."
        ]
        if self.error_bound_ >= 0.5:
            notes.append("The bound is vacuous: the answer 1/2 to every query is never further off.")
        return notes

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of the first answers. It prints as text, and shows as HTML in a notebook."""
        return self._estimates(_SHOWN).summary(confidence_level)


def as_queries(queries: Any, size: int | None = None, name: str = "queries") -> LinearQueries:
    """Return a family of queries unchanged, and a matrix or a single query as a family."""
    if not isinstance(queries, LinearQueries):
        ndim = 1 if np.ndim(queries) == 1 else 2
        queries = LinearQueries.from_matrix(np.atleast_2d(query_values(name, queries, ndim, size)))
    found: LinearQueries = queries
    if size is not None and found.size != size:
        raise refuse(name, got=f"queries about {found.size:,}", allowed=f"about {size:,} points")
    return found
