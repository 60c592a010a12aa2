"""Releases that turn a histogram into a distribution with bounded errors, and hypotheses that learn from queries."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
from dpstats.inference.error_distributions import AtOnce, ChosenLimits, usual_level
from dpstats.inference.estimates import Estimates, HasEstimates
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


def as_queries(queries: Any, size: int | None = None) -> LinearQueries:
    """Return a family of queries unchanged, and a matrix or a single query as a family."""
    if not isinstance(queries, LinearQueries):
        ndim = 1 if np.ndim(queries) == 1 else 2
        queries = LinearQueries.from_matrix(np.atleast_2d(query_values("queries", queries, ndim, size)))
    found: LinearQueries = queries
    if size is not None and found.size != size:
        raise refuse("queries", got=f"queries about {found.size:,}", allowed=f"about {size:,} points")
    return found


# Hypotheses that learn from queries. A query with a large error moves them toward the data by a stated amount.
# So there are few such queries. `most_updates` bounds their number, and a mechanism pays for at most this number.
# Proof: docs/intervals/query-updates.md.

_BLOCK = 1 << 15  # number of points that fit into the cache
_ROUNDED = 1e3  # a factor above which a difference has lost digits


class UpdateRule(ABC):
    """Learning rule of a hypothesis.

    An update uses one query with values ``f``, the answer ``predicted`` of the hypothesis, and a noisy ``answer`` of
    the data. The noise is at most ``error``, which is less than the difference between the two answers. All are
    proportions of rows.
    """

    @abstractmethod
    def start(self) -> NDArray[Any]:
        """Return the hypothesis before any query."""

    @abstractmethod
    def most_updates(self, gap: float) -> float:
        """Return the maximal number of updates by queries with true answers that differ by ``gap`` or more."""

    @abstractmethod
    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query. It may reuse the given array."""

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query with an error that noise may explain. It learns the noisy answer.

        The error bound was reached before, so it does not depend on this step.
        """
        return self.updated(hypothesis, f, predicted, answer, 0.0)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        """Return the answers of the hypothesis, as proportions of rows."""
        return np.asarray(queries.answers(hypothesis), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        """Return the answer of the hypothesis to one query."""
        return float(f @ hypothesis)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        """Return the hypothesis as a distribution on the universe."""
        return np.asarray(hypothesis, dtype=np.float64)


class MultiplicativeWeights(UpdateRule):
    """A distribution whose points are reweighted until it answers the query like the data.

    Let p be the previous answer. Points at which the query is 1 are multiplied by ``odds``. With odds
    t(1 - p)/(p(1 - t)), a counting query has the answer t. The relative entropy to the data falls by at least 2 gap^2,
    so there are at most log(size)/(2 gap^2) updates.

    Parameters
    ----------
    size : int
        Size of the universe.
    rate : float, optional
        Use the printed rule instead: weights fall by e^(-rate r), where r is the query or 1 minus the query
        (algorithm 5).
    """

    def __init__(self, size: int, rate: float | None = None) -> None:
        self.size, self.rate = size, rate

    def start(self) -> Numbers:
        return np.full(self.size, 1 / self.size)

    def most_updates(self, gap: float) -> float:
        if self.rate is not None:
            drop = self.rate * gap - self.rate**2
            return math.log(self.size) / drop if drop > 0 else math.inf
        return math.log(self.size) / (2 * gap**2)

    def updated(self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float) -> Numbers:
        if self.rate is not None:
            weights = hypothesis * np.exp((-self.rate if answer < predicted else self.rate) * f)
            return np.asarray(weights / weights.sum())
        target = nearer(predicted, answer, error)
        p = min(max(predicted, 1e-12), 1 - 1e-12)
        # Avoid answers of 0 and 1, because a point with probability 0 can never regain weight.
        target = min(max(target, p / 1024), 1 - (1 - p) / 1024)
        return reweighted(hypothesis, f, predicted, target * (1 - p) / (p * (1 - target)))


def nearer(predicted: float, answer: float, error: float) -> float:
    """Return the answer closest to the predicted one among all answers that are possible given the noise."""
    return min(max(predicted, answer - error), answer + error)


def reweighted(weights: Numbers, f: Numbers, share: float, odds: float) -> Numbers:
    """Multiply weights by 1 + (odds - 1) f in place, and divide by their new sum. ``share`` is the old answer of f.

    The factor is linear in f instead of a power. On 0/1 values both are equal. On other values the relative entropy
    falls by the same amount (see the proof page). The new sum is known in advance, so one pass suffices.
    """
    rest = 1 / (1 + (odds - 1) * share)
    slope = (odds - 1) * rest
    buffer = np.empty(min(_BLOCK, weights.size))
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        factor = buffer[: block.size]
        np.multiply(f[start : start + _BLOCK], slope, out=factor)
        factor += rest
        block *= factor
    if rest > _ROUNDED:
        weights /= weights.sum()
    return weights


class Perceptron(UpdateRule):
    """A distribution that moves along the query, and is projected back onto the distributions.

    An update adds a multiple of the query minus its mean, as large as the gap requires. The squared distance to the
    data falls by at least 4 gap^2/size. So there are at most (norm size - 1)/(4 gap^2) updates, which is a small number
    if rows are spread widely.

    Parameters
    ----------
    size : int
        Size of the universe.
    norm : float, default=1.0
        Public bound on the sum of the squared proportions of the points. 1 is always valid.
    step : float, optional
        Use the printed rule instead: start at 0, and add ``step`` times the query. The sum need not be a distribution.
    """

    def __init__(self, size: int, norm: float = 1.0, step: float | None = None) -> None:
        self.size, self.norm, self.step = size, norm, step

    def start(self) -> Numbers:
        return np.zeros(self.size) if self.step is not None else np.full(self.size, 1 / self.size)

    def most_updates(self, gap: float) -> float:
        if self.step is not None:
            drop = 2 * self.step * gap - self.step**2 * self.size
            return self.norm / drop if drop > 0 else math.inf
        return max(self.norm * self.size - 1, 0.0) / (4 * gap**2)

    def updated(self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float) -> Numbers:
        if self.step is not None:
            return np.asarray(hypothesis + (-self.step if answer < predicted else self.step) * f)
        centered = f - f.mean()
        length = float(centered @ centered)
        if length == 0:
            return hypothesis  # all distributions have the same answer
        return on_simplex(hypothesis + (nearer(predicted, answer, error) - predicted) / length * centered)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return on_simplex(np.asarray(hypothesis, dtype=np.float64))


def on_simplex(x: Numbers) -> Numbers:
    """Return the distribution closest to a vector in Euclidean distance."""
    if x.min() >= 0 and abs(x.sum() - 1) <= 1e-12:
        return x
    # The projection is max(x - level, 0), for the level at which it adds up to 1 (Held, Wolfe and Crowder 1974).
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, x.size + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(x - level, 0.0))


class Median(UpdateRule):
    """The databases of a net that are consistent with all answers so far. Their median answers queries.

    Every update keeps at most half of the databases, including a database close to the data. So the number of updates
    is at most log2 of the number of databases.

    Parameters
    ----------
    net : array of shape (n_databases, size)
        Distributions. One of them must answer every query within ``net_error`` of the data.
    net_error : float
        Error of the net.
    halving : bool, default=False
        Use the printed rule: keep the databases on the correct side of the median, instead of all databases that are
        consistent with the answer.
    """

    def __init__(self, net: Numbers, net_error: float, halving: bool = False) -> None:
        self.net, self.net_error, self.halving = net, net_error, halving

    def start(self) -> NDArray[np.bool_]:
        return np.ones(len(self.net), dtype=bool)

    def most_updates(self, gap: float) -> float:
        # With a smaller gap, the database close to the data need not be on the correct side of the median.
        return math.log2(len(self.net)) if gap > self.net_error else math.inf

    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        found = self.net @ f
        if self.halving:
            kept = found < predicted if answer < predicted else found > predicted
        else:
            # Tolerance for floating-point error: keep the candidate that is close enough.
            kept = np.abs(found - answer) <= error + self.net_error + 1e-9
        left = hypothesis & kept
        # No database remains only if the noise exceeds its bound. The error probability beta includes this event.
        return left if left.any() else hypothesis

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        # The interval of possible answers never excludes a close database, but the side of a median may.
        return hypothesis if self.halving else self.updated(hypothesis, f, predicted, answer, error)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        found = np.array([queries.answers(y) for y in self.net[hypothesis]])
        return np.asarray(np.median(found, axis=0), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        return float(np.median(self.net[hypothesis] @ f))

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return np.asarray(self.net[hypothesis].mean(axis=0))
