"""The exponential mechanism over databases. It chooses a distribution by the error of its worst answer."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import MOST_ROWS, open_source
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.privacy.events import BoundedRange
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import ReleasePlan, largest_cost
from dpstats.privacy.stages import Selection
from dpstats.queries.linear import FRACTION_BITS, ROW, LinearQueries, Numbers, data_steps, hypothesis_steps
from dpstats.release.estimator import parameters
from dpstats.release.session import Released, Session
from dpstats.textbook.error_bounds import (
    FEW_DATABASES,
    AccuracyBound,
    build_net,
    check_net,
    database_size,
    multisets,
    n_multisets,
    net_accuracy,
    net_bound,
    small_db_bound,
)
from dpstats.textbook.histogram_release import BoundedAnswers

# Proof: docs/proofs/small-databases.md.

DATABASE = "database"
_BLOCK = 1 << 22  # largest number of answers compared at the same time


_BYTES_OF_A_CANDIDATE = 200


@dataclass(frozen=True)
class NetPlan(ReleasePlan):
    """The plan of a choice among databases.

    Attributes
    ----------
    databases : array of shape (n_databases, size)
        Candidate distributions.
    queries : LinearQueries
        Public queries.
    net_error : float
        Error of the net: for any data, one candidate answers all queries with at most this error.
    """

    databases: Numbers = field(repr=False, compare=False)
    queries: LinearQueries = field(repr=False, compare=False)
    net_error: float = field(repr=False)

    @property
    def _workspace(self) -> int:
        # Scores, their noise and the answers of all candidates.
        return _BYTES_OF_A_CANDIDATE * len(self.databases) + 2 * self.databases.nbytes

    @property
    def selection(self) -> Selection:
        """The one stage."""
        return self.selections[0]

    def error_bound(self, beta: float = 0.05) -> AccuracyBound:
        """Return the bound on the error of all answers (proposition 5.2)."""
        epsilon = 2 * ROW / self.selection.scale_steps
        return net_bound(
            self.n_samples, n_databases=len(self.databases), net_error=self.net_error, epsilon=epsilon, beta=beta
        )


@parameters
class _Databases(BoundedAnswers[NetPlan]):
    """Base class of the estimators that choose one of many databases."""

    queries: Any = None

    @abstractmethod
    def _candidates(self, queries: LinearQueries, n: int) -> tuple[Numbers, float]:
        """Return the databases and the error of this net, for n rows of data."""

    def plan(self, n_samples: int, n_features: int | None = None) -> NetPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Ignored, because the queries define the universe.
        """
        queries = self._declared()
        n = check_integer("n_samples", n_samples, at_least=1, at_most=MOST_ROWS)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        check_real("beta", self.beta, above=0, below=1)
        databases, net_error = self._candidates(queries, n)
        target = PrivacyGuarantee(epsilon, delta)
        each = epsilon if delta == 0 else largest_cost(lambda cost: (BoundedRange(cost),), target, epsilon)
        stage = Selection(
            DATABASE, "gumbel", 1, 2.0**-FRACTION_BITS / n, ROW, quotient_up(2 * ROW, each), candidates=len(databases)
        )
        return NetPlan((stage,), target, n, queries.size, databases, queries, net_error)

    def _read(self, rows: Rows, plan: NetPlan) -> Mapping[str, Any]:
        counts = self._histogram(rows, plan.queries.size)
        return {DATABASE: data_steps(plan.queries, counts)}

    def _release(self, private: Mapping[str, Any], plan: NetPlan, session: Session) -> None:
        session.select(DATABASE, -worst_errors(private[DATABASE], plan))

    def _report(self, released: Released, plan: NetPlan) -> None:
        self.chosen_ = int(released[DATABASE][0])
        self.synthetic_ = plan.databases[self.chosen_]
        self.error_bound_ = min(plan.error_bound(self.beta).error, 1.0)

    def probabilities(self, X: Any) -> Numbers:
        """Return the exact probability of every database of the plan. The probabilities are as private as the data.

        Parameters
        ----------
        X : array of shape (size,), or rows
            The same as in `fit`.
        """
        source = open_source(X)
        schema = self._schema().resolve(source.names)
        rows = source.read(schema)
        plan = self.plan(rows.shape[0], schema.width(rows.shape[1]))
        errors = worst_errors(self._read(rows, plan)[DATABASE], plan)
        weights = np.exp(-(errors - errors.min()) / plan.selection.scale_steps)
        return np.asarray(weights / weights.sum())

    def _facts(self) -> list[tuple[str, str]]:
        plan = self.plan_
        return [
            ("Chosen from", f"{len(plan.databases):,} databases"),
            ("One of them within", f"{plan.net_error:.4g} of any data"),
        ]


def worst_errors(answers: NDArray[np.int64], plan: NetPlan) -> NDArray[np.int64]:
    """Return the largest error of every database, in steps. Its sensitivity is the sensitivity of an answer."""
    errors = np.empty(len(plan.databases), dtype=np.int64)
    block = max(1, _BLOCK // plan.queries.n_queries)
    for start in range(0, errors.size, block):
        there = [plan.queries.answers(y) for y in plan.databases[start : start + block]]
        errors[start : start + block] = np.abs(answers - hypothesis_steps(there, plan.n_samples)).max(axis=1)
    return errors


@parameters
class NetMechanism(_Databases):
    """Private choice of a database from a net by its largest error, with the exponential mechanism (algorithm 7).

    Use it for small universes, for which a net can be listed. Otherwise use `IterativeConstruction`.

    Parameters
    ----------
    queries : LinearQueries, or array of shape (n_queries, size)
        Public queries. The release answers all of them.
    domain : Domain, or what makes one, optional
        Domain of the rows, to count rows and to draw synthetic ones. Without it, ``fit`` takes a histogram.
    net : array of shape (n_databases, size), optional
        Public databases to choose from, as counts or proportions. None: the estimator builds a net with the given
        ``accuracy``, for small universes.
    accuracy : float, optional
        Error of the net: for any data, one of its databases answers all queries with at most this error. Required to
        build a net. For a given ``net`` without an accuracy, ``error_bound_`` is 1.
    beta : float, default=0.05
        Probability that ``error_bound_`` does not hold.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). The mechanism is purely private. A positive delta slightly improves the accuracy
        at the same epsilon.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    synthetic_ : ndarray of shape (size,)
        The chosen database, as a distribution. `predict` answers queries on it, and `sample` draws rows.
    chosen_ : int
        Position of the chosen database in the net.
    error_bound_ : float
        Bound on the error of all answers, as a proportion of the rows, except with probability ``beta``. A bound of 1
        is vacuous.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : NetPlan

    Notes
    -----
    Source: algorithm 7 and proposition 5.1 of the foundations text (docs/sources.md).
    P(y) is proportional to ``exp(-epsilon n max_f |f(x) - f(y)|/2)``. The error is at most accuracy +
    2 (log(n_databases) + log(1/beta))/(n epsilon) (proposition 5.2).

    **Limits.** The error bound is for the worst query on these rows, without sampling error. The net must be listed
    in memory.

    Examples
    --------
    >>> from dpstats.textbook import NetMechanism
    >>> net = NetMechanism(queries=[[1, 1, 0], [0, 1, 1]], accuracy=0.1, epsilon=1.0, random_state=0)
    >>> net.fit([200, 500, 300]).predict().round(3)
    array([0.75, 0.75])
    """

    net: Any = None
    accuracy: float | None = None

    def _candidates(self, queries: LinearQueries, n: int) -> tuple[Numbers, float]:
        if self.net is not None:
            error = 1.0 if self.accuracy is None else check_real("accuracy", self.accuracy, at_least=0, at_most=1)
            return check_net(self.net, queries.size), error
        if self.accuracy is None:
            raise refuse("net or accuracy", allowed="given, the databases, or how near to build them")
        return build_net(queries, self.accuracy), float(self.accuracy)


@parameters
class SmallDB(_Databases):
    """Private choice among all small databases by the largest error, with the exponential mechanism (algorithm 4).

    Use it for tiny universes only, because it lists all databases. If there are too many, use `IterativeConstruction`
    or `OnlineMultiplicativeWeights`, which need no list.

    Parameters
    ----------
    queries : LinearQueries, or array of shape (n_queries, size)
        Public queries. The release answers all of them.
    accuracy : float, optional
        Error with which the small databases can answer. A smaller value requires more databases.
    n_rows : int, optional
        Number of rows of a small database, in place of ``accuracy``. Default of both: the number with the smallest
        bound on the error of all answers (theorem 4.5), among those with at most 20,000 databases.
    calibration : {"exact", "textbook"}, default="exact"
        Number of rows for the accuracy. "exact" uses the smallest number known to suffice. "textbook" uses the printed
        log(n_queries)/accuracy^2, and raises an error for one query, where this is 0. Without an accuracy, it uses
        half of the error that theorem 4.5 prints.
    epsilon, delta, beta, domain, random_state, budget
        The same as in `NetMechanism`.

    Attributes
    ----------
    database_ : ndarray of shape (size,)
        The chosen database, as counts.
    synthetic_ : ndarray of shape (size,)
        The chosen database as a distribution. `predict` answers queries on it, and `sample` draws rows.
    chosen_ : int
        Position of the chosen database among the candidates, ``plan_.databases``.
    error_bound_ : float
        Bound on the error of all answers, as a proportion of the rows, except with probability ``beta``. A bound of 1
        is vacuous.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : NetPlan

    Notes
    -----
    Source: algorithm 4 and theorems 4.2 to 4.6 of the foundations text (docs/sources.md). Two numbers of rows suffice.
    A random sample of floor(log(2 n_queries)/(2 accuracy^2)) + 1 rows has the accuracy with positive probability.
    Rounding the proportions of the data requires size/(4 accuracy) rows.

    **Limits.** The error bound is for the worst query on these rows. The list has at most 200,000 candidates.

    Examples
    --------
    >>> from dpstats.textbook import SmallDB
    >>> small = SmallDB(queries=[[1, 1, 0, 0], [0, 1, 1, 0]], n_rows=4, epsilon=1.0, random_state=0)
    >>> small.fit([100, 400, 300, 200]).database_
    array([1, 1, 2, 0])
    """

    accuracy: float | None = None
    n_rows: int | None = None
    calibration: str = "exact"

    def _candidates(self, queries: LinearQueries, n: int) -> tuple[Numbers, float]:
        m = self._rows(queries, n)
        return multisets(queries.size, m) / m, net_accuracy(m, queries)

    def _rows(self, queries: LinearQueries, n: int) -> int:
        check_choice("calibration", self.calibration, ["exact", "textbook"])
        if self.n_rows is not None:
            if self.accuracy is not None:
                raise refuse("accuracy or n_rows", got="both", allowed="given, at most one of them")
            return check_integer("n_rows", self.n_rows, at_least=1)
        if self.accuracy is None and self.calibration == "exact":
            return self._best_rows(queries, n)
        if self.accuracy is None:
            sizes = {"size": queries.size, "n_queries": queries.n_queries}
            printed = small_db_bound(n, **sizes, epsilon=self.epsilon, beta=self.beta, printed=True)
            accuracy = min(1.0, printed.error / 2)
        else:
            accuracy = check_real("accuracy", self.accuracy, above=0, below=1)
        if self.calibration == "exact":
            return database_size(accuracy, queries)
        if queries.n_queries == 1:
            raise refuse(
                "calibration",
                given="textbook",
                allowed="'exact' for one query",
                remedy="The printed size has no rows for one query: log(1)/accuracy^2 = 0 (docs/errata.md).",
            )
        return math.ceil(math.log(queries.n_queries) / accuracy**2)

    def _best_rows(self, queries: LinearQueries, n: int) -> int:
        """Return the number of rows with the smallest bound, with few databases."""
        best, m = (math.inf, 1), 1
        while (count := n_multisets(queries.size, m)) <= FEW_DATABASES or m == 1:
            noise = 2 * (math.log(count) + math.log(1 / self.beta)) / (n * self.epsilon)
            best = min(best, (net_accuracy(m, queries) + noise, m))
            # The noise only grows with m. One point has one database.
            if noise > best[0] or queries.size == 1:
                break
            m = max(m + 1, math.floor(1.02 * m))
        return best[1]

    def _report(self, released: Released, plan: NetPlan) -> None:
        super()._report(released, plan)
        self.database_ = as_int64(np.rint(self.synthetic_ * self._rows(plan.queries, plan.n_samples)))
