"""The iterative construction: privately select the worst query, learn from it, and stop when all are accurate.

Proof: docs/proofs/iterative-construction.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.opening import MOST_ROWS
from dpstats.data.parameters import check_choice, check_flag, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.errors import NotPrivate, refuse
from dpstats.privacy.events import BoundedRange, Event, Gaussian
from dpstats.privacy.gaussian import zcdp_rho
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import MARGINS, ReleasePlan, largest_cost
from dpstats.privacy.stages import Selection, Stage
from dpstats.privacy.totals import covers
from dpstats.queries.domain import BYTES_OF_A_CELL
from dpstats.queries.linear import FRACTION_BITS, ROW, LinearQueries, Numbers, data_steps, hypothesis_steps
from dpstats.queries.mwem import LESS
from dpstats.release.estimator import parameters
from dpstats.release.noise import check_scale
from dpstats.release.session import Released, Session
from dpstats.textbook.error_bounds import (
    VACUOUS,
    VACUOUS_NOTE,
    build_net,
    check_net,
    default_net,
    median_updates,
    whole,
)
from dpstats.textbook.histogram_release import BoundedAnswers, Median, MultiplicativeWeights, Perceptron, UpdateRule

# The plan: number of rounds, noise, stopping rule and error bound

MOST_ROUNDS = 10_000


def worst_query(t: int) -> str:
    """Return the name of the stage that selects the worst query of round t."""
    return f"worst query {t}"


def its_answer(t: int) -> str:
    """Return the name of the stage that answers the selected query of round t."""
    return f"its answer {t}"


@dataclass(frozen=True)
class RoundNoise:
    """Noise of every round, in rows: Gumbel noise on the errors of all queries, and noise on the selected answer.

    Attributes
    ----------
    errors, answer : float
        Scales of the noise.
    law : {"laplace", "gaussian"}
        Distribution of the noise of the answer.
    """

    errors: float
    answer: float
    law: str

    def regret(self, rounds: int, n_queries: int, beta: float) -> float:
        """Bound the gap between the worst and the selected error in all rounds, except with probability beta/2."""
        return self.errors * math.log(2 * rounds * n_queries / beta) + 1 / ROW

    def error(self, rounds: int, beta: float) -> float:
        """Bound the error of all answers, except with probability beta/2."""
        if self.law == "laplace":
            return self.answer * math.log(2 * rounds / beta) + 1 / ROW
        return -self.answer * float(ndtri(beta / (4 * rounds))) + 1 / ROW

    def less(self, factor: float) -> RoundNoise:
        """Return the noise for a privacy cost that is ``factor`` times as large."""
        return RoundNoise(self.errors / factor, self.answer / factor, self.law)


@dataclass(frozen=True)
class ConstructionPlan(ReleasePlan):
    """The plan of an iterative construction.

    Attributes
    ----------
    queries : LinearQueries
        Public queries.
    accuracy : float, optional
        Requested accuracy.
    rounds : int
        Number of rounds, each with a selection and a check: one more than the maximal number of updates.
    stop : float
        Stopping threshold. Each round with a checked error above it is an update that `most_updates` counts.
    answer_error : float
        Bound on the error of the checks.
    regret : float
        Bound on the gap between the worst and the selected error.
    gap : float
        Smallest difference between the answers in an update.
    beta : float
        Probability that any of these bounds fails. The bounds are proportions of the rows.
    promised : bool
        Whether the rounds suffice for all data. The error is then at most ``error_bound``, except with probability
        beta.
    """

    queries: LinearQueries = field(repr=False, compare=False)
    accuracy: float | None
    rounds: int
    stop: float
    answer_error: float
    regret: float
    gap: float
    beta: float = field(repr=False)
    promised: bool = field(repr=False)
    rule: UpdateRule = field(repr=False, compare=False)
    printed: bool = False

    @property
    def _workspace(self) -> int:
        return BYTES_OF_A_CELL * self.queries.size

    def ends_at(self, checked: float) -> bool:
        """Return whether the stated accuracy is reached, which ends the fit. Without one, all rounds are used."""
        if self.printed:
            return checked <= self.stop
        bound = checked + self.answer_error + self.regret
        return self.accuracy is not None and bound <= self.accuracy * (1 + 1e-12)

    @property
    def error_bound(self) -> float:
        """Bound on the error of all answers after a check of at most ``stop``: stop + answer_error + regret.

        If it is not ``promised``, the checks of a fit may stay above ``stop``. The bound of the fit is then larger.
        """
        return self.stop + self.answer_error + self.regret

    def notes(self) -> list[str]:
        """Return the limits of the error bound as text."""
        found = self.accuracy_note()
        if not self.promised:
            found.append("The rounds may not be enough: what a fit finds has the bound that its own checks give.")
        if self.error_bound >= VACUOUS:
            found.append(VACUOUS_NOTE)
        return found

    def accuracy_note(self) -> list[str]:
        """Return a note if the requested accuracy is not reached."""
        if self.accuracy is None or self.error_bound <= self.accuracy * (1 + 1e-9):
            return []
        return [f"An accuracy of {self.accuracy:g} was not promised: these sizes do not allow it."]

    def _describe_stages(self) -> list[str]:
        # All rounds are equal, so show only the first.
        return [*super()._describe_stages()[:2], *([f"and so on, {self.rounds} rounds"] if self.rounds > 1 else [])]


def shares(rounds: int, n_queries: int, target: PrivacyGuarantee, beta: float) -> RoundNoise:
    """Return the noise of every round that minimizes twice the error of an answer plus the regret."""
    log_queries = math.log(2 * rounds * n_queries / beta)
    if target.delta == 0:
        # An answer costs 1/scale, and a selection 2/scale. The minimum of a/x + b/(1 - x) is at x/(1 - x) = sqrt(a/b).
        odds = math.sqrt(2 * math.log(2 * rounds / beta) / (2 * log_queries))
        answers = odds / (1 + odds) * target.epsilon / rounds
        return RoundNoise(2 / (target.epsilon / rounds - answers), 1 / answers, "laplace")
    # Of rho an answer takes 1/(2 scale^2), and a choice of range 2/scale half as much again as its square over 4.
    rho = zcdp_rho(target.epsilon, target.delta) / rounds
    tail = -float(ndtri(beta / (4 * rounds)))
    odds = (2 * tail / math.sqrt(2) / (log_queries / math.sqrt(2))) ** (2 / 3)
    answers = odds / (1 + odds) * rho
    return RoundNoise(math.sqrt(1 / (2 * (rho - answers))), math.sqrt(1 / (2 * answers)), "gaussian")


def tightened(noise: RoundNoise, rounds: int, target: PrivacyGuarantee) -> RoundNoise:
    """Return the smallest noise in the same proportions whose best total is the target."""
    if target.delta == 0:
        return noise

    def events(factor: float) -> tuple[Event, ...]:
        choices = (BoundedRange(2 * factor / noise.errors),) * rounds
        return choices + (Gaussian(factor / noise.answer),) * rounds

    factor = largest_cost(events, target, 1 - 1e-9) * (1 - 1e-9)
    for part in LESS:
        found = noise.less(max(factor * (1 - part), 1 - 1e-9))
        drawn = Stage(its_answer(1), found.law, 1, 1 / ROW, ROW, check_scale(found.answer * ROW)).event
        if covers((BoundedRange(2 / found.errors),) * rounds + (drawn,) * rounds, target):
            break
    return found


def printed(rounds: int, target: PrivacyGuarantee) -> RoundNoise:
    """Return the printed noise: every release at epsilon/(2 rounds), or epsilon/(4 sqrt(rounds log(1/delta)))."""
    epsilon, delta = target.epsilon, target.delta
    each = epsilon / (4 * math.sqrt(rounds * math.log(1 / delta)) if delta else 2 * rounds)
    return RoundNoise(2 / each, 1 / each, "laplace")


def not_private_as_printed(target: PrivacyGuarantee) -> NotPrivate:
    """Return the error for printed constants that do not have the target."""
    return NotPrivate(
        f"calibration='textbook' is not private at {target}: the printed constants rest on advanced composition, "
        "which needs a smaller epsilon (docs/errata.md); use calibration='exact'"
    )


def stages_of(
    noise: RoundNoise, rounds: int, n_queries: int, n: int, target: PrivacyGuarantee, calibration: str
) -> tuple[Selection | Stage, ...]:
    """Return the stages of all rounds, certified to cost at most the target."""
    for margin in (0.0, *MARGINS):
        errors, answer = (check_scale(scale * ROW * (1 + margin)) for scale in (noise.errors, noise.answer))
        spacing = 2.0**-FRACTION_BITS / n
        one = Selection(worst_query(1), "gumbel", 1, spacing, ROW, errors, candidates=n_queries)
        other = Stage(its_answer(1), noise.law, 1, spacing, ROW, answer)
        if covers((one.event,) * rounds + (other.event,) * rounds, target):
            return tuple(
                stage
                for t in range(1, rounds + 1)
                for stage in (
                    Selection(worst_query(t), "gumbel", 1, spacing, ROW, errors, candidates=n_queries),
                    Stage(its_answer(t), noise.law, 1, spacing, ROW, answer),
                )
            )
    if calibration == "textbook":
        raise not_private_as_printed(target)
    raise refuse("epsilon and delta", got=f"{target}", allowed="not be too extreme for exact noise")


def best_gap(
    updates: Callable[[float], float],
    n: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
) -> tuple[float, int]:
    """Return the gap of an update, and the number of rounds that it requires.

    The error is gap + 2 answer_error + regret, and the noise decreases if the gap grows. The largest gap that achieves
    the accuracy has the fewest rounds. If no gap does, or no accuracy is requested, this is the gap with the smallest
    error.
    """
    ways = []
    for gap in (0.97**i for i in range(220)):
        if updates(gap) >= MOST_ROUNDS:
            break
        rounds = whole(updates(gap)) + 1
        noise = shares(rounds, n_queries, target, beta)
        bound = gap + (2 * noise.error(rounds, beta) + noise.regret(rounds, n_queries, beta)) / n
        ways.append((bound, gap, rounds))
    if not ways:
        raise refuse(
            "max_updates",
            allowed="given",
            remedy=f"At any accuracy there may be more than {MOST_ROUNDS:,} updates here.",
        )
    kept = [way for way in ways if accuracy is not None and way[0] <= accuracy]
    _, gap, rounds = max(kept, key=lambda way: way[1]) if kept else min(ways)
    return gap, rounds


# The estimator

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
    domain : Domain, or what makes one, optional
        Domain of the rows, to count rows and to draw synthetic ones. Without it, ``fit`` takes a histogram.
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
        For the median: error of the net. None: a quarter of the accuracy for a net that the estimator builds. Without
        an accuracy, None is 0.05, or the smallest error that 20,000 databases have. For a given net, None is an unknown
        error, without an error bound before the fit.
    norm : float, default=1.0
        For the perceptron: a public bound on the sum of the squared proportions of the points. 1 is always valid.
    max_updates : int, optional
        Number of rounds with an update, instead of a number that is always sufficient. Fewer rounds have less noise,
        but no error bound before the fit. The bound of the result is valid in any case.
    beta : float, default=0.05
        Probability that ``error_bound_`` does not hold.
    calibration : {"exact", "textbook"}, default="exact"
        "textbook" uses the printed noise, step and number of rounds, for updates by half of the accuracy
        (docs/errata.md).
    progress : bool, default=False
        Whether to show a progress bar.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). With 0 the pure costs of the rounds add up. With a positive value the noise grows
        with the square root of the number of rounds.
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
    Source: algorithm 8 and theorems 5.6 to 5.12 of the foundations text (docs/sources.md). All rounds are charged,
    whether or not they are used.

    **Limits.** The error bound is for the worst query on these rows, without sampling error. It is vacuous for few
    rows, which the plan states.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.textbook import IterativeConstruction
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
                "accuracy", allowed="given with calibration='textbook'", remedy="Its constants are made of it."
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
            if self.accuracy is None:
                return Median(*default_net(queries, 0.05), accuracy is not None)
            error = self.accuracy / 4
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
