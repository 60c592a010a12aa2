"""The iterative construction: privately select the worst query, learn from it, and stop when all are accurate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.counts import MOST_ROWS
from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.tables import Rows
from dpstats.errors import refuse
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.queries.base import BoundedAnswers
from dpstats.queries.bounds import median_updates, whole
from dpstats.queries.counts import data_steps, hypothesis_steps
from dpstats.queries.linear import LinearQueries, Numbers
from dpstats.queries.multisets import build_net, check_net
from dpstats.queries.rounds import (
    MOST_ROUNDS,
    ConstructionPlan,
    best_gap,
    its_answer,
    printed,
    shares,
    stages_of,
    tightened,
    worst_query,
)
from dpstats.queries.updates import Median, MultiplicativeWeights, Perceptron, UpdateRule
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session

# Proof: docs/proofs/iterative-construction.md.

UPDATES = ("multiplicative_weights", "median", "perceptron")


class Search:
    """The rounds so far. They depend on released values only.

    The result is the hypothesis with the smallest error bound. The bound of a hypothesis is the result of its check
    plus the largest error that noise can hide.
    """

    def __init__(self, plan: ConstructionPlan) -> None:
        self._queries, self._plan, self._rule = plan.queries, plan, plan.rule
        self.hypothesis = self._rule.start()
        self.found: NDArray[Any] = self.hypothesis
        self.checked = math.inf
        self.rounds = 0
        self.near = self.ended = False

    def step(self, worst: int, answer: float) -> None:
        """Check the hypothesis with the answer of its worst query, and learn from it if they differ."""
        f = self._queries.query(worst)
        predicted = self._rule.answer(f, self.hypothesis)
        checked = abs(answer - predicted)
        self.rounds += 1
        if checked <= self.checked:
            # Store a copy, because the hypothesis continues to learn.
            self.found, self.checked = self.hypothesis.copy(), checked
        self.near = self.near or checked <= self._plan.stop
        self.ended = self._plan.ends_at(checked)
        if not self.ended and self.rounds < self._plan.rounds:
            error = self._plan.answer_error
            learn = self._rule.refined if self.near else self._rule.updated
            self.hypothesis = learn(self.hypothesis, f, predicted, answer, error)


@parameters
class IterativeConstruction(BoundedAnswers[ConstructionPlan]):
    """Answer many queries with a hypothesis that learns from the worst of them (algorithm 8).

    In every round, the exponential mechanism selects the query with the largest error of the hypothesis. The answer of
    this query is released with noise, and the hypothesis learns from it. The budget pays for all rounds, and all are
    used unless the stated accuracy is reached. The result is the hypothesis whose own check had the smallest error.

    Parameters
    ----------
    queries : LinearQueries, or array of shape (n_queries, size)
        Public queries.
    accuracy : float, optional
        Target for the error of every answer, as a proportion of the rows. The fit stops when it is reached. None, or a
        target that these sizes do not allow, is replaced by the smallest possible one. ``plan(n).error_bound`` reports
        it before the fit.
    update : {"multiplicative_weights", "median", "perceptron"}, default="multiplicative_weights"
        Learning rule. The perceptron needs fewer rounds if rows are spread over most of the universe and ``norm``
        declares this. The median of a net is for tiny universes.
    net : array of shape (n_databases, size), optional
        For the median: a set of databases. For any data, one of them must answer within ``net_error``. None: the
        estimator builds a net.
    net_error : float, optional
        For the median: error of the net. None: a quarter of the accuracy (or 0.05) for a net that the estimator builds.
        For a given net the error is then unknown, and there is no error bound before the fit.
    norm : float, default=1.0
        For the perceptron: a public bound on the sum of the squared proportions of the points. 1 is always valid.
    max_updates : int, optional
        Number of rounds with an update, instead of a number that is always sufficient. Fewer rounds have less noise,
        but no error bound before the fit. The bound of the result is valid in any case.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). With 0 the pure costs of the rounds add up. With a positive value the noise grows
        with the square root of the number of rounds.
    beta : float, default=0.05
        Probability that ``error_bound_`` does not hold.
    calibration : {"exact", "textbook"}, default="exact"
        "textbook" uses the printed noise, step and number of rounds, for updates by half of the accuracy
        (docs/errata.md).
    progress : bool, default=False
        Whether to show a progress bar.
    domain : Domain, or what makes one, optional
        Domain of the rows, to count rows and to draw synthetic ones. Without it, ``fit`` takes a histogram.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    synthetic_ : ndarray of shape (size,)
        The hypothesis as a distribution. `predict` answers queries on it, and `sample` draws rows. With the median,
        `predict` uses medians over the remaining databases, and this attribute is their mean.
    error_bound_ : float
        Bound on the error of all answers, as a proportion of the rows, except with probability ``beta``. It is the
        result of the last check plus the largest error that noise can hide. It holds whether or not the fit converged.
    n_rounds_ : int
        Number of rounds used, at most ``plan_.rounds``.
    converged_ : bool
        Whether a check showed that the stated accuracy was reached, which ended the fit.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ConstructionPlan
        The release plan: all rounds, their noise and the error bound.

    Notes
    -----
    Source: chapter 5 of the foundations text. All rounds are charged, whether or not they are used.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import IterativeConstruction
    >>> halves = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0]])
    >>> made = IterativeConstruction(queries=halves, accuracy=0.05, epsilon=1.0, delta=1e-6, random_state=0)
    >>> made.fit([70_000, 20_000, 8_000, 2_000]).n_rounds_, round(made.error_bound_, 2)
    (3, 0.03)
    >>> bool(abs(made.predict() - [0.9, 0.78, 0.28]).max() < made.error_bound_)
    True
    """

    queries: Any = None
    accuracy: float | None = None
    update: str = "multiplicative_weights"
    net: Any = None
    net_error: float | None = None
    norm: float = 1.0
    max_updates: int | None = None
    calibration: str = "exact"
    progress: bool = False

    def plan(self, n_samples: int, n_features: int | None = None) -> ConstructionPlan:
        """Return the plan of a fit on data of this size: releases, privacy cost and error bound.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Ignored, because the queries define the universe.
        """
        queries = self._declared()
        n = check_integer("n_samples", n_samples, at_least=1, at_most=MOST_ROWS)
        k = queries.n_queries
        beta = check_real("beta", self.beta, above=0, below=1)
        accuracy = None if self.accuracy is None else check_real("accuracy", self.accuracy, above=0, below=1)
        target = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        calibration = check_choice("calibration", self.calibration, ["exact", "textbook"])
        check_flag("progress", self.progress)
        if calibration == "textbook" and accuracy is None:
            raise refuse(
                "accuracy",
                allowed="given with calibration='textbook'",
                remedy="Its constants are made of it.",
            )
        rule = self._rule(queries, accuracy if calibration == "textbook" else None)
        given = None
        if self.max_updates is not None:
            given = check_integer("max_updates", self.max_updates, at_least=0, at_most=MOST_ROUNDS - 1)
        if given is None and isinstance(rule, Median) and rule.net_error >= 1:
            given = median_updates(len(rule.net))  # after these updates, one database remains
        if calibration == "textbook":
            assert accuracy is not None
            rounds = _printed_rounds(rule, accuracy) if given is None else given + 1
            noise, stop = printed(rounds, target), 3 * accuracy / 4
        else:
            gap, rounds = 0.0, (given or 0) + 1
            if given is None:
                gap, rounds = best_gap(rule.most_updates, n, k, target, beta, accuracy)
            noise = tightened(shares(rounds, k, target, beta), rounds, target)
            stop = gap + noise.error(rounds, beta) / n
            if accuracy is not None:
                # Use the gain of tightening: raise ``stop`` to the largest check that reaches the accuracy.
                stop = max(stop, accuracy - (noise.error(rounds, beta) + noise.regret(rounds, k, beta)) / n)
        stages = stages_of(noise, rounds, k, n, target, calibration)
        answer_error, regret = noise.error(rounds, beta) / n, noise.regret(rounds, k, beta) / n
        gap = stop - answer_error
        promised = gap > 0 and rule.most_updates(gap) * (1 + 1e-12) < rounds
        return ConstructionPlan(
            stages,
            target,
            n,
            queries.size,
            queries,
            accuracy,
            rounds,
            stop,
            answer_error,
            regret,
            gap,
            beta,
            promised,
            rule,
            calibration == "textbook",
        )

    def _rule(self, queries: LinearQueries, accuracy: float | None) -> UpdateRule:
        """Return the learning rule. With an ``accuracy``, it uses the printed step."""
        name = check_choice("update", self.update, UPDATES)
        if name == "multiplicative_weights":
            return MultiplicativeWeights(queries.size, None if accuracy is None else accuracy / 4)
        if name == "perceptron":
            norm = check_real("norm", self.norm, above=0, at_most=1)
            return Perceptron(queries.size, norm, None if accuracy is None else accuracy / (2 * queries.size))
        error = self.net_error
        if error is None and self.net is not None:
            # The error of any net is at most 1. This bound excludes no database, but the side of the median does.
            return Median(check_net(self.net, queries.size), 1.0, halving=True)
        if error is None:
            error = 0.05 if self.accuracy is None else self.accuracy / 4
        error = check_real("net_error", error, at_least=0, below=1)
        if self.net is not None:
            return Median(check_net(self.net, queries.size), error, accuracy is not None)
        return Median(build_net(queries, error), error, accuracy is not None)

    def _read(self, rows: Rows, plan: ConstructionPlan) -> NDArray[np.int64]:
        return data_steps(plan.queries, self._histogram(rows, plan.queries.size))

    def _release(self, private: NDArray[np.int64], plan: ConstructionPlan, session: Session) -> None:
        from tqdm import tqdm

        queries, n = plan.queries, plan.n_samples
        search = Search(plan)
        for t in tqdm(range(1, plan.rounds + 1), desc="rounds", disable=not self.progress):
            if search.ended:
                # The decision uses released values only, so it is public.
                session.skip(worst_query(t), "the accuracy is reached")
                session.skip(its_answer(t), "the accuracy is reached")
                continue
            answers = plan.rule.answers(queries, search.hypothesis)
            (worst,) = session.select(worst_query(t), np.abs(private - hypothesis_steps(answers, n)))
            (answer,) = session.add(its_answer(t), private[[worst]])
            search.step(int(worst), float(answer))

    def _report(self, released: Released, plan: ConstructionPlan) -> None:
        search = Search(plan)
        for t in range(1, plan.rounds + 1):
            if worst_query(t) in released:
                search.step(int(released[worst_query(t)][0]), float(released[its_answer(t)][0]))
        self._found = search.found
        self.n_rounds_, self.converged_ = search.rounds, search.ended
        self.synthetic_ = plan.rule.distribution(search.found)
        self.error_bound_ = min(search.checked + plan.answer_error + plan.regret, 1.0)

    def _answered(self, queries: LinearQueries) -> Numbers:
        return np.asarray(np.clip(self.plan_.rule.answers(queries, self._found), 0.0, 1.0))

    def _facts(self) -> list[tuple[str, str]]:
        plan = self.plan_
        ended = "the accuracy was reached" if self.converged_ else "all used"
        return [("Rounds", f"{self.n_rounds_:,} of {plan.rounds:,}, {ended}")]

    def _notes(self) -> list[str]:
        return [*super()._notes(), *self.plan_.accuracy_note()]


def _printed_rounds(rule: UpdateRule, accuracy: float) -> int:
    """Return the printed number of rounds: one more than the number of updates by half of the accuracy."""
    most = rule.most_updates(accuracy / 2)
    if most >= MOST_ROUNDS:
        raise refuse(
            "accuracy",
            allowed="larger, or max_updates given",
            remedy=f"There may be {most:,.0f} updates, of at most {MOST_ROUNDS - 1:,}.",
        )
    return whole(most) + 1
