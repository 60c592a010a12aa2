"""The iterative construction: look for the worst query in private, learn from it, and stop when there is none.

Proof: docs/proofs/iterative-construction.md.
"""

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
from dpstats.errors import InvalidParameter
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.queries.base import HistogramRelease, as_queries
from dpstats.queries.bounds import median_updates, whole
from dpstats.queries.counts import data_steps, hypothesis_steps
from dpstats.queries.linear import LinearQueries
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

Numbers = NDArray[np.float64]

UPDATES = ("multiplicative_weights", "median", "perceptron")


class Search:
    """The rounds so far, made of what was released and nothing else.

    The hypothesis that counts is the one whose worst query was found nearest: the bound of each is what its check
    found, and what noise can have hidden.
    """

    def __init__(self, plan: ConstructionPlan) -> None:
        self._queries, self._plan, self._rule = plan.queries, plan, plan.rule
        self.hypothesis = self._rule.start()
        self.found: NDArray[Any] = self.hypothesis
        self.checked = math.inf
        self.rounds = 0
        self.near = self.ended = False

    def step(self, worst: int, answer: float) -> None:
        """Check the hypothesis by the answer of its worst query, and learn from it if they differ."""
        f = self._queries.query(worst)
        predicted = self._rule.answer(f, self.hypothesis)
        checked = abs(answer - predicted)
        self.rounds += 1
        if checked <= self.checked:
            # A copy: it goes on learning.
            self.found, self.checked = self.hypothesis.copy(), checked
        self.near = self.near or checked <= self._plan.stop
        self.ended = self._plan.ends_at(checked)
        if not self.ended and self.rounds < self._plan.rounds:
            error = self._plan.answer_error
            learn = self._rule.refined if self.near else self._rule.updated
            self.hypothesis = learn(self.hypothesis, f, predicted, answer, error)


@parameters
class IterativeConstruction(HistogramRelease[ConstructionPlan]):
    """Answer many queries at once, by a hypothesis that learns from the worst of them (algorithm 8).

    In every round the query on which the hypothesis is worst is selected by the exponential mechanism, its answer is
    released with noise, and the hypothesis learns from it. All rounds are paid for, and all are used: a search ends
    before only where the stated accuracy is reached. The hypothesis whose own check was nearest is reported.

    Parameters
    ----------
    queries : LinearQueries, or array of shape (n_queries, size)
        Public.
    accuracy : float, optional
        What every answer is to be within, as a share of the rows. None, or one that these sizes do not allow: the
        smallest that there is; ``plan(n).error_bound`` says which, before any data. A search ends where it is reached.
    update : {"multiplicative_weights", "median", "perceptron"}, default="multiplicative_weights"
        How the hypothesis learns. The perceptron needs fewer rounds where rows are spread over most of the universe,
        and ``norm`` says so; the median of a net is for tiny universes.
    net : array of shape (n_databases, size), optional
        For the median: databases, one of which answers within ``net_error`` of any data. None: one is built.
    net_error : float, optional
        For the median: of the net. None: a quarter of the accuracy (or .05) for one that is built; of a given one it is
        not known, and nothing is promised beforehand.
    norm : float, default=1.0
        For the perceptron: a public bound on the sum of the squared shares of the points; 1 always holds.
    max_updates : int, optional
        Rounds with an update, in place of as many as are always enough: less noise, and no promise beforehand. The
        bound of what is found holds in any case.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=0.0
        0 adds up pure costs; in (0, 1) the noise grows with the square root of the rounds.
    beta : float, default=0.05
        Probability that ``error_bound_`` does not hold.
    calibration : {"exact", "textbook"}, default="exact"
        The printed noise, step and number of rounds, for updates by half of the accuracy (docs/errata.md).
    progress : bool, default=False
        Whether to show a bar.
    domain : Domain, or what makes one, optional
        What counts rows, and draws them; without one a fit takes a histogram.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged by every fit, before noise is drawn; shared by clones.

    Attributes
    ----------
    synthetic_ : ndarray of shape (size,)
        The hypothesis as a distribution: `predict` answers queries on it, `sample` draws rows. (With the median
        `predict` answers by medians over the databases that are left, and this is their mean.)
    error_bound_ : float
        Largest error of all answers, as a share of the rows, but for probability ``beta``: what the last check found,
        and what noise can have hidden. It holds whether or not the search ended by itself.
    n_rounds_ : int
        How many rounds there were, of ``plan_.rounds``.
    converged_ : bool
        Whether a check showed that the stated accuracy is reached, which ended them.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ConstructionPlan

    Notes
    -----
    Chapter 5 of the foundations text. All rounds are charged, whether or not they are needed.

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
        """Return what a fit on data of this size would release, at which cost, and what it promises.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Ignored: the universe is that of the queries.
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
            raise InvalidParameter(
                "accuracy must be given with calibration='textbook': its constants are made of it"
            )
        rule = self._rule(queries, accuracy if calibration == "textbook" else None)
        given = None
        if self.max_updates is not None:
            given = check_integer("max_updates", self.max_updates, at_least=0, at_most=MOST_ROUNDS - 1)
        if given is None and isinstance(rule, Median) and rule.net_error >= 1:
            given = median_updates(len(rule.net))  # which leave one database
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
                # What tightening leaves: the largest check that reaches the accuracy.
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

    def _declared(self) -> LinearQueries:
        if self.queries is None:
            raise InvalidParameter(
                "queries must be given: a LinearQueries, or a matrix of shape (n_queries, size)"
            )
        return as_queries(self.queries)

    def _rule(self, queries: LinearQueries, accuracy: float | None) -> UpdateRule:
        """Return how the hypothesis learns; of an ``accuracy`` by the printed step."""
        name = check_choice("update", self.update, UPDATES)
        if name == "multiplicative_weights":
            return MultiplicativeWeights(queries.size, None if accuracy is None else accuracy / 4)
        if name == "perceptron":
            norm = check_real("norm", self.norm, above=0, at_most=1)
            return Perceptron(queries.size, norm, None if accuracy is None else accuracy / (2 * queries.size))
        error = self.net_error
        if error is None and self.net is not None:
            # Of any net it is 1 at most. That excludes no database, where the right side of the median still does.
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
        queries, n = plan.queries, plan.n_samples
        search = Search(plan)
        for t in _shown(range(1, plan.rounds + 1), self.progress):
            if search.ended:
                # By what was released, which is public.
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
    """Return one more than the updates by half of the accuracy, for which the printed steps are built."""
    most = rule.most_updates(accuracy / 2)
    if most >= MOST_ROUNDS:
        raise InvalidParameter(
            f"accuracy must be larger, or max_updates given: there may be {most:,.0f} updates, of at most "
            f"{MOST_ROUNDS - 1:,}"
        )
    return whole(most) + 1


def _shown(rounds: range, progress: bool) -> Any:
    if not progress:
        return rounds
    from tqdm import tqdm

    return tqdm(rounds, desc="rounds")
