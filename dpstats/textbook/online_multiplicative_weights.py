"""Online multiplicative weights: a stream of queries in which only surprising queries use the budget.

Proof: docs/proofs/online-multiplicative-weights.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import MOST_ROWS
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.errors import DPStatsError, Exhausted, InvalidParameter, refuse
from dpstats.inference.reports import SIMULATED, Records
from dpstats.inference.results import Summary
from dpstats.privacy.budget import refuse_key
from dpstats.privacy.events import Event, Gaussian, Pure
from dpstats.privacy.gaussian import zcdp_rho
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import MARGINS, ReleasePlan, largest_cost
from dpstats.privacy.stages import Comparisons
from dpstats.privacy.totals import covers
from dpstats.queries.domain import BYTES_OF_A_CELL
from dpstats.queries.linear import FRACTION_BITS, ROW, Numbers, hypothesis_steps, in_shares, in_steps, query_values
from dpstats.queries.mwem import LESS
from dpstats.release.estimator import parameters
from dpstats.release.noise import check_scale
from dpstats.release.session import Released, Session
from dpstats.release.streams import Stream, check_process
from dpstats.textbook.error_bounds import VACUOUS, VACUOUS_NOTE, multiplicative_weights_updates, online_bound
from dpstats.textbook.histogram_release import HistogramRelease, MultiplicativeWeights
from dpstats.textbook.iterative_construction import not_private_as_printed

# Noise: scales, the number of updates, and the error bound

ANSWERS = (0.1, 0.2, 0.3, 0.5)
"""Candidates for the budget fraction (of epsilon, or of rho) of the answers. The comparisons get the remainder.

The candidate with the best error bound is used. A smaller fraction would make the answers of updates less accurate
without much improvement of the bound."""
_MOST_UPDATES = 10**6


@dataclass(frozen=True)
class Scales:
    """Noise of a stream, in rows: Laplace noise on the threshold and on the comparisons, and noise of the answers."""

    threshold: float
    question: float
    answer: float
    answer_noise: str
    redrawn: bool

    def errors(self, updates: int, n_queries: int, beta: float) -> tuple[float, float]:
        """Bound the noise of all comparisons and of all answers, except with probability beta."""
        thresholds = updates if self.redrawn else 1
        # A third of beta each; half a step for every number on the lattice, and one for the threshold.
        compared = self.threshold * math.log(3 * thresholds / beta)
        compared += self.question * math.log(3 * n_queries / beta) + 2 / ROW
        if self.answer_noise == "laplace":
            return compared, self.answer * math.log(3 * updates / beta) + 1 / ROW
        return compared, -self.answer * float(ndtri(beta / (6 * updates))) + 1 / ROW

    def less(self, factor: float) -> Scales:
        """Return the noise for a privacy cost that is ``factor`` times as large."""
        return replace(
            self, threshold=self.threshold / factor, question=self.question / factor, answer=self.answer / factor
        )


@dataclass(frozen=True)
class OnlineNoise:
    """Noise and error bounds of a stream.

    The three bounds are proportions of the rows. They hold simultaneously, except with probability beta.

    Attributes
    ----------
    stage : Comparisons
        The stage of the stream.
    gap : float
        Smallest difference between the answers of the data and of the hypothesis in an update.
    answer_error : float
        Bound on the error of answers from the data.
    error_bound : float
        Bound on the error of all answers.
    rate : float or None
        Rate of the printed update. None: the tight update.
    enough : bool
        Whether the stage has more updates than there can be, except with probability beta. The last update ends the
        stream.
    """

    stage: Comparisons
    gap: float
    answer_error: float
    error_bound: float
    rate: float | None
    enough: bool


def pure_scales(updates: int, epsilon: float, answers: float = 0.1) -> Scales:
    """Return noise with one threshold for the whole stream. It costs epsilon for any number of comparisons.

    The comparisons cost 1/threshold + 2 updates/question. The sum of the variances is smallest at a ratio of
    (2 updates)^(1/3).
    """
    ratio = (2 * updates) ** (1 / 3)
    threshold = (1 + ratio**2) / ((1 - answers) * epsilon)
    return Scales(threshold, ratio * threshold, updates / (answers * epsilon), "laplace", False)


def concentrated_scales(updates: int, rho: float, answers: float = 0.1) -> Scales:
    """Return noise with a threshold for each update. The total zero-concentrated cost is rho.

    A threshold with its comparison costs epsilon_0 = 1/threshold + 2/question, which is epsilon_0^2/2 of rho.
    """
    each = math.sqrt(2 * (1 - answers) * rho / updates)
    ratio = 2 ** (1 / 3)
    threshold = (1 + ratio**2) / each
    return Scales(threshold, ratio * threshold, math.sqrt(updates / (2 * answers * rho)), "gaussian", True)


def stage_of(name: str, scales: Scales, updates: int, target: PrivacyGuarantee) -> Comparisons:
    """Return the stage that draws the noise, certified to cost at most the target."""
    for margin in (0.0, *MARGINS):
        threshold, question, answer = (
            check_scale(scale * ROW * (1 + margin)) for scale in (scales.threshold, scales.question, scales.answer)
        )
        stage = Comparisons(
            name,
            2.0**-FRACTION_BITS,
            ROW,
            0,
            threshold,
            question,
            updates,
            answer,
            redrawn=scales.redrawn,
            answer_noise=scales.answer_noise,
        )
        if covers(stage.events, target):
            return stage
    raise refuse("epsilon and delta", got=f"{target}", allowed="not be too extreme for exact noise")


def tight_noise(
    name: str,
    n: int,
    size: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
    max_updates: int | None,
) -> OnlineNoise:
    """Return the noise for the fewest updates with a given accuracy. If none has it, return the best error bound.

    Let the noise of all comparisons be at most w. If a query exceeds the threshold gap + w, its error is at least the
    gap. Otherwise its error is at most gap + 2 w.
    """

    rho = zcdp_rho(target.epsilon, target.delta) if target.delta > 0 else None

    def kinds(updates: int) -> list[Scales]:
        found = [pure_scales(updates, target.epsilon, share) for share in ANSWERS]
        if rho is not None:
            found += [concentrated_scales(updates, rho, share) for share in ANSWERS]
        return found

    def promise(gap: float, updates: int, scales: Scales) -> float:
        compared, answered = scales.errors(updates, n_queries, beta)
        return max(gap, answered / n) + 2 * compared / n

    if max_updates is None:
        # A larger gap has fewer updates. A grid with ratio 1 - 1/40 is fine enough.
        gaps = [0.5 * 0.975**i for i in range(260)]
        ways = [
            (promise(gap, c, scales), -gap, c, scales)
            for gap in gaps
            # Use one more than the maximal number, because the last update ends a stream.
            if (c := multiplicative_weights_updates(size, gap) + 1) <= _MOST_UPDATES
            for scales in kinds(c)
        ]
        kept = [way for way in ways if accuracy is not None and way[0] <= accuracy]
        _, gap, updates, scales = (
            min(kept, key=lambda way: (way[1], way[0])) if kept else min(ways, key=lambda way: way[:2])
        )
        gap = -gap
    else:
        updates = max_updates
        # Without a requested accuracy, set the threshold above the noise by the width of the noise.
        scales = min(
            kinds(updates), key=lambda kind: promise(kind.errors(updates, n_queries, beta)[0] / n, updates, kind)
        )
        compared = scales.errors(updates, n_queries, beta)[0] / n
        gap = compared if accuracy is None else max(accuracy - 2 * compared, 0.0)
    scales = _tightened(name, scales, updates, target)
    compared, answered = (error / n for error in scales.errors(updates, n_queries, beta))
    gap = max(gap, answered)
    stage = replace(stage_of(name, scales, updates, target), threshold_steps=math.ceil((gap + compared) * n * ROW))
    enough = multiplicative_weights_updates(size, gap) < updates
    return OnlineNoise(stage, gap, answered, gap + 2 * compared, None, enough)


def _tightened(name: str, scales: Scales, updates: int, target: PrivacyGuarantee) -> Scales:
    """Return the smallest noise in the same proportions whose best total is the target."""
    if target.delta == 0:
        return scales  # the sum of pure costs equals the target
    thresholds = updates if scales.redrawn else 1
    each = 1 / scales.threshold + 2 * updates / thresholds / scales.question

    def events(factor: float) -> tuple[Event, ...]:
        answer = Gaussian(factor / scales.answer) if scales.redrawn else Pure(factor / scales.answer)
        return (Pure(factor * each),) * thresholds + (answer,) * updates

    factor = largest_cost(events, target, 1 - 1e-9) * (1 - 1e-9)
    for part in LESS:
        found = scales.less(max(factor * (1 - part), 1 - 1e-9))
        try:
            stage_of(name, found, updates, target)
        except InvalidParameter:
            continue
        break
    return found


def printed_noise(
    name: str,
    n: int,
    size: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
    max_updates: int | None,
) -> OnlineNoise:
    """Return the printed constants, at the smallest alpha of theorem 4.14 or 4.15, or at a third of the accuracy.

    There are two differences. Every query has one comparison of |f(x) - f(x_t)|, instead of one for each sign. An
    accuracy below the accuracy of the theorem is raised to it.
    """
    epsilon, delta = target.epsilon, target.delta
    bound = online_bound(n, size=size, n_queries=n_queries, epsilon=epsilon, delta=delta, beta=beta)
    alpha = max(bound.error, accuracy or 0.0) / 3
    updates = max(1, math.ceil(4 * math.log(size) / alpha**2)) if max_updates is None else max_updates
    # Budget fractions of comparisons and answers (theorem 3.27): 8/9 and 1/9, or in proportion to sqrt(512) and 1.
    share = math.sqrt(512) / (math.sqrt(512) + 1) if delta else 8 / 9
    each = share * epsilon / (math.sqrt(8 * updates * math.log(2 / delta)) if delta else updates)
    answers = each * (1 - share) / share
    scales = Scales(2 / each, 4 / each, 1 / answers, "laplace", True)
    try:
        stage = stage_of(name, scales, updates, target)
    except InvalidParameter:
        raise not_private_as_printed(target) from None
    stage = replace(stage, threshold_steps=math.ceil(2 * alpha * n * ROW))
    enough = multiplicative_weights_updates(size, alpha, printed=True) < updates
    return OnlineNoise(stage, alpha, alpha, 3 * alpha, alpha / 2, enough)


# The estimator

ERRORS = "errors of the hypothesis"


@dataclass(frozen=True)
class OnlinePlan(ReleasePlan):
    """The plan of a stream of queries.

    Attributes
    ----------
    noise_of : OnlineNoise
        The noise, and the resulting error bounds.
    beta : float
        Probability that the error bound does not hold.
    n_queries : int
        Maximal number of queries.
    """

    noise_of: OnlineNoise = field(repr=False)
    beta: float = field(repr=False)
    n_queries: int = field(repr=False)

    @property
    def _workspace(self) -> int:
        return BYTES_OF_A_CELL * self.n_features

    @property
    def comparisons(self) -> Comparisons:
        """The one stage."""
        (stage,) = self.stages
        assert isinstance(stage, Comparisons)
        return stage

    @property
    def max_updates(self) -> int:
        """Maximal number of queries that are answered from the data."""
        return self.comparisons.max_above

    @property
    def threshold(self) -> float:
        """Error of the hypothesis above which a query is answered from the data, as a proportion of the rows."""
        return float(in_shares(self.comparisons.threshold_steps, self.n_samples))

    @property
    def error_bound(self) -> float:
        """Bound on the error of all answers, except with probability beta."""
        return self.noise_of.error_bound

    def notes(self) -> list[str]:
        """Return the limits of the error bound as text."""
        found = []
        if self.error_bound >= VACUOUS:
            found.append(VACUOUS_NOTE)
        if not self.noise_of.enough:
            found.append("There may be more surprising queries than updates: the bound covers the answers until then.")
        return found


class Conversation:
    """An open stream: the private histogram, the public hypothesis, and the remaining comparisons."""

    def __init__(self, counts: NDArray[np.int64], plan: OnlinePlan, stream: Stream) -> None:
        self._counts: Numbers | None = counts.astype(np.float64)
        self._plan, self._stream = plan, stream
        self._process = os.getpid()
        self.rule = MultiplicativeWeights(counts.size, plan.noise_of.rate)
        self.hypothesis = self.rule.start()
        self.asked = 0

    @property
    def left(self) -> int:
        """Number of remaining updates."""
        return self._stream.left

    def ask(self, f: Numbers) -> float:
        """Return the answer of a query with values in [0, 1], multiples of 2^-20."""
        check_process(self._process)
        plan, counts = self._plan, self._counts
        if counts is None and self._stream.left > 0:
            raise Exhausted("the stream was closed; a new fit costs a new guarantee")
        if counts is None or self._stream.left == 0:
            raise Exhausted(
                f"all {plan.max_updates} updates are used and the stream is exhausted: predict() answers from the last "
                "hypothesis, without a bound; a new fit costs a new guarantee"
            )
        if self.asked >= plan.n_queries:
            raise Exhausted(
                f"all n_queries = {plan.n_queries:,} queries of the error bound have been answered, and the stream is "
                "exhausted; a new fit costs a new guarantee"
            )
        predicted = float(f @ self.hypothesis)
        # Sums of multiples of 2^-20, below 2^53 such units, are exact in any order.
        exact = int(in_steps(np.asarray(f @ counts)))
        error = abs(exact - int(hypothesis_steps(predicted, plan.n_samples)))
        found = self._stream.ask(error, exact)
        self.asked += 1
        if found is None:
            return min(max(predicted, 0.0), 1.0)
        assert found.steps is not None
        answer = float(in_shares(found.steps, plan.n_samples))
        # The true difference is at least the gap of an update, and at least the observed difference minus the noise.
        noise = plan.noise_of
        gap = max(noise.gap, abs(answer - predicted) - noise.answer_error)
        target = predicted - gap if answer < predicted else predicted + gap
        self.hypothesis = self.rule.updated(self.hypothesis, f, predicted, target, 0.0)
        if self._stream.left == 0:
            self._counts = None  # no longer needed
        return min(max(answer, 0.0), 1.0)

    def close(self) -> None:
        """Delete the data. The stream accepts no further queries."""
        self._counts = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open stream cannot be copied or pickled: two copies would cost twice")


@parameters
class OnlineMultiplicativeWeights(HistogramRelease[OnlinePlan]):
    """Answer queries one at a time from one budget, if each query may depend on earlier answers (algorithm 6).

    A public hypothesis answers the queries. For each query, the sparse vector technique privately checks whether the
    hypothesis differs from the data. If it does, the query is answered from the data, and the hypothesis learns. Only
    these answers use the budget, and there are few. If all queries are known in advance, use `WorkloadAnswers`.

    Parameters
    ----------
    n_queries : int, default=1000
        Maximal number of queries. The error bound holds for all of them.
    queries : LinearQueries, optional
        Declared queries, so that `answer` also accepts the index of one.
    domain : Domain, or what makes one, optional
        Domain of the rows, to count rows and to draw synthetic ones. Without it, ``fit`` takes a histogram.
    accuracy : float, optional
        Target for the error of every answer, as a proportion of the rows. None, or a target that these sizes do not
        allow, is replaced by the smallest possible one. ``plan(n, size).error_bound`` reports it before the fit.
    max_updates : int, optional
        Maximal number of queries answered from the data. The stream ends with the last one. A small number gives less
        noise, and the bound holds until the stream ends. None: more than there can be, so that the stream does not end.
    beta : float, default=0.05
        Probability that ``error_bound_`` does not hold.
    calibration : {"exact", "textbook"}, default="exact"
        "textbook" uses the printed constants, if they are private: 8 times as many updates, with the printed threshold,
        noise and rate.
    epsilon : float, default=1.0
        Privacy parameter of the whole stream. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 uses one noisy threshold for the whole stream. With a positive value each update
        may have a separate threshold, and the noise grows with the square root of the number of updates.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges for the whole stream, before it draws noise. Clones share it.

    Attributes
    ----------
    synthetic_ : ndarray of shape (size,)
        The hypothesis after the answers so far. `predict` answers queries on it, and `sample` draws rows.
    n_updates_ : int
        Number of queries answered from the data so far.
    updates_left_ : int
        Number of queries that can still be answered from the data.
    n_asked_ : int
        Number of queries so far.
    error_bound_ : float
        Bound on the error of all answers of `answer`, as a proportion of the rows, except with probability ``beta``.
    privacy_ : PrivacyGuarantee
        Guarantee of the whole stream, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : OnlinePlan
        The release plan: noise, maximal number of updates and error bound.

    Notes
    -----
    A fitted object contains the private histogram until its stream is exhausted or `close` is called. It cannot be
    copied or pickled. Source: algorithm 6 and theorems 4.10 to 4.15 of the foundations text (docs/sources.md), with the
    constants of the proof page.

    **Limits.** The error bound is for the worst query on these rows, and vacuous for few rows, which the plan
    states. The stream ends when its updates are used up.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.textbook import OnlineMultiplicativeWeights
    >>> counts = np.array([60_000, 30_000, 9_000, 1_000])
    >>> online = OnlineMultiplicativeWeights(n_queries=50, epsilon=1.0, random_state=0).fit(counts)
    >>> round(online.answer([1, 0, 0, 0]), 3), round(online.answer([1, 1, 0, 0]), 2), online.n_updates_
    (0.59, 0.9, 2)
    """

    n_queries: int = 1000
    queries: Any = None
    accuracy: float | None = None
    max_updates: int | None = None
    calibration: str = "exact"

    def plan(self, n_samples: int, n_features: int | None = None) -> OnlinePlan:
        """Return the plan of a stream on data of this size: noise, privacy cost and error bound.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Number of points in the universe. Not needed if ``queries`` are declared.
        """
        n = check_integer("n_samples", n_samples, at_least=1, at_most=MOST_ROWS)
        if n_features is None:
            n_features = self._declared().size
        size = check_integer("n_features", n_features, at_least=2)
        k = check_integer("n_queries", self.n_queries, at_least=1)
        beta = check_real("beta", self.beta, above=0, below=1)
        accuracy = None if self.accuracy is None else check_real("accuracy", self.accuracy, above=0, below=1)
        updates = None if self.max_updates is None else check_integer("max_updates", self.max_updates, at_least=1)
        target = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        make = {"exact": tight_noise, "textbook": printed_noise}[
            check_choice("calibration", self.calibration, ["exact", "textbook"])
        ]
        noise = make(ERRORS, n, size, k, target, beta, accuracy, updates)
        return OnlinePlan((noise.stage,), target, n, size, noise, beta, k)

    def _read(self, rows: Rows, plan: OnlinePlan) -> NDArray[np.int64]:
        refuse_key(self.budget)
        return self._histogram(rows, None if self.queries is None else self._declared().size)

    def _release(self, private: NDArray[np.int64], plan: OnlinePlan, session: Session) -> None:
        self._conversation = Conversation(private, plan, session.stream(ERRORS))

    def _report(self, released: Released, plan: OnlinePlan) -> None:
        self.error_bound_ = min(plan.error_bound, 1.0)

    def answer(self, query: Any) -> float:
        """Answer one query. The query may depend on earlier answers.

        Parameters
        ----------
        query : array of shape (size,), or int
            Values in [0, 1] at the points of the universe, which are rounded to multiples of 2^-20. Or the index of a
            declared query.

        Returns
        -------
        float
            Answer as a proportion of the rows, within ``error_bound_`` of the answer on the data.

        Raises
        ------
        Exhausted
            If all updates are used, or if ``n_queries`` queries were answered.
        InvalidParameter
            If ``query`` is not a query on this universe. The stream then does not change.
        """
        check_is_fitted(self, "plan_")
        return self._conversation.ask(self._values(query))

    def _values(self, query: Any) -> Numbers:
        if np.ndim(query) == 0:
            return self._declared().query(query)
        return query_values("query", query, 1, self.plan_.n_features)

    def stream(self, queries: Iterable[Any]) -> Iterator[float]:
        """Answer queries one at a time. Each query is read after the previous answer.

        Parameters
        ----------
        queries : iterable
            Queries that `answer` accepts.
        """
        for query in queries:
            yield self.answer(query)

    def close(self) -> None:
        """Delete the data. Released values remain available."""
        check_is_fitted(self, "plan_")
        self._conversation.close()

    @property
    def synthetic_(self) -> Numbers:  # type: ignore[override]
        """Copy of the public hypothesis, a distribution on the universe. The stream continues to update its own."""
        check_is_fitted(self, "plan_")
        return np.array(self._conversation.rule.distribution(self._conversation.hypothesis))

    @property
    def updates_left_(self) -> int:
        """Number of queries that can still be answered from the data."""
        check_is_fitted(self, "plan_")
        return self._conversation.left

    @property
    def n_updates_(self) -> int:
        """Number of queries answered from the data so far: all queries above the threshold."""
        return self.plan_.max_updates - self.updates_left_

    @property
    def n_asked_(self) -> int:
        """Number of queries so far."""
        check_is_fitted(self, "plan_")
        return self._conversation.asked

    def confidence_interval(self, confidence_level: float | None = None) -> NoReturn:
        """Raise an error, because the bound holds for answers of `answer`, and not for the last hypothesis."""
        raise DPStatsError("answer() must have given the answer: error_bound_ does not hold for predict()")

    def _records(self) -> Records:
        check_is_fitted(self, "plan_")
        columns = {
            "so_far": [self.n_asked_, self.n_updates_],
            "left": [self.plan_.n_queries - self.n_asked_, self.updates_left_],
        }
        facts = {"error_bound": self.error_bound_, "beta": self.plan_.beta, "simulated": self.privacy_.simulated}
        return Records(["queries", "updates"], columns, facts)

    def summary(self) -> Summary:
        """Return the state and the error bound of the stream. It prints as text, and shows as HTML in a notebook."""
        names, columns, _ = self._records()
        plan = self.plan_
        notes = ["The bound covers the answers of answer(); predict() answers from the last hypothesis, without one."]
        notes += plan.notes()
        notes += [SIMULATED] * self.privacy_.simulated
        return Summary(
            "Private answers to a stream of queries",
            self._bound_facts(plan.n_features),
            ["", "so far", "left"],
            [
                (name, *(f"{count:,}" for count in counts))
                for name, *counts in zip(names, *columns.values(), strict=True)
            ],
            notes,
        )
