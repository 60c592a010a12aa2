"""The sparse vector technique: a stream of questions, paid for by the answers above a threshold.

Proof: docs/proofs/sparse-vector.md.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.values import exact_numbers, floats_among
from dpstats.errors import Exhausted, NotPrivate, attempt, refuse, refuse_data, state_charges
from dpstats.inference.results import ConfidenceInterval
from dpstats.lattice import exact_steps
from dpstats.mechanisms.selection import laplace_log_cumulative, laplace_log_density, normalized, pieces
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import DiscreteLaplace, Event, Pure
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import Plan, largest_cost
from dpstats.privacy.stages import Comparisons
from dpstats.privacy.totals import covers
from dpstats.release.mechanism import Mechanism
from dpstats.release.noise import check_scale
from dpstats.release.session import to_units
from dpstats.release.streams import Above, Stream, check_process

_BLOCK = 4096  # values of an array that become Python numbers at once

_FAR = 60.0
"""Gaps beyond this many scales of the noise are as good as infinite: e^-60."""

STREAM = "comparisons with the threshold"


def comparisons(
    threshold: float,
    sensitivity: float,
    each: float,
    max_above: int,
    guarantee: PrivacyGuarantee,
    answers: float | None = None,
) -> Comparisons:
    """Return the stage of a stream whose every noisy threshold costs at most ``each``.

    That is up to and including the answer above that ends it: its noise has scale 2 sensitivity/each and a
    question's 4 sensitivity/each. Values are rounded to a power-of-two lattice, 2^-40 of the threshold's
    noise or finer. This adds one step to their sensitivity, and the noise is calibrated to the enlarged one.
    If ``answers`` is given, values above are released at that cost.
    """
    threshold = check_real("threshold", threshold)
    sensitivity = check_real("sensitivity", sensitivity, at_least=1e-200, at_most=1e200)
    check_drawable(each, guarantee.epsilon)
    spacing = 2.0 ** (math.frexp(2 * sensitivity / each)[1] - 1 - 40)
    steps = math.ceil(Fraction(sensitivity) / Fraction(spacing)) + 1
    return Comparisons(
        STREAM,
        spacing,
        steps,
        int(exact_steps(np.array([threshold]), spacing)[0]),
        check_scale(quotient_up(2 * steps, each)),
        check_scale(quotient_up(4 * steps, each)),
        max_above,
        None if answers is None else check_scale(quotient_up(steps, answers)),
        neighbors=guarantee.neighbors,
    )


def _compute_halting(gaps: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """Return P(question i is the first above), i = 0, ..., and P(none is).

    A question is below iff its noise is below its gap plus the threshold's noise, ratio times Laplace.
    """
    gaps = np.clip(gaps, -_FAR, _FAR)
    kinks = np.unique(np.concatenate([-gaps, [0.0, -_FAR - 40, _FAR + 40]]))
    result = np.zeros(gaps.size + 1)
    for x, lengths in pieces(kinks):
        weights = lengths * np.exp(laplace_log_density(x / ratio)) / ratio
        room = x[:, None] + gaps
        # A question is above where minus its noise is below minus its room.
        above = np.exp(laplace_log_cumulative(-room))
        still = np.exp(np.cumsum(laplace_log_cumulative(room), axis=1))
        before = np.column_stack([np.ones(x.size), still])
        result[:-1] += weights @ (before[:, :-1] * above)
        result[-1] += weights @ before[:, -1]
    return normalized(result)


class ThresholdStream(Mechanism):
    """Base of the sparse vector classes: a stream of questions, charged for at the first."""

    def __init__(
        self,
        stage: Comparisons,
        threshold: float,
        sensitivity: float,
        guarantee: PrivacyGuarantee,
        random_state: Any,
        budget: PrivacyBudget | None,
    ) -> None:
        super().__init__(guarantee, random_state, budget)
        self._threshold, self._sensitivity = float(threshold), float(sensitivity)
        self._stage = stage
        self._exponent = math.frexp(stage.spacing)[1] - 1
        self._plan = self._planned(stage)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._stream: Stream | None = None

    @property
    def plan(self) -> Plan:
        """What a whole stream consists of and costs, however long."""
        return self._plan

    @property
    def threshold(self) -> float:
        """The public threshold."""
        return self._threshold

    @property
    def sensitivity(self) -> float:
        """The largest change of a question's value between neighboring datasets."""
        return self._sensitivity

    @property
    def max_above(self) -> int:
        """How many answers above the threshold there can be."""
        return self._stage.max_above

    @property
    def n_above(self) -> int:
        """Number of answers above so far."""
        return self.max_above - self._left

    @property
    def _left(self) -> int:
        return self.max_above if self._stream is None else self._stream.left

    @property
    def threshold_scale(self) -> float:
        """Scale of the threshold's Laplace noise, in the units of the values."""
        return self._stage.threshold_scale_steps * self._stage.spacing

    @property
    def query_scale(self) -> float:
        """Scale of a question's Laplace noise, in the units of the values."""
        return self._stage.question_scale_steps * self._stage.spacing

    def query(self, value: Any) -> Any:
        """Answer one question.

        The first one charges the budget for the whole stream; later ones are free.

        Parameters
        ----------
        value : float
            The private value of the question, which may have been chosen after the earlier answers.
            Finite; integers are taken exactly, however large.

        Raises
        ------
        Exhausted
            If the last answer above has been given.
        InvalidData
            If the value is not a finite number; nothing is charged or drawn.
        BudgetExceeded
            If the budget cannot pay for the stream.
        """
        # Before any lock, which another thread of the parent may have held at the fork.
        check_process(self._process)
        if self._left == 0:
            self._refuse()
        if self._stream is None and self._budget is not None:
            self._check_budget()
        # The fast way out for floats: exact, since the lattice is a power of two.
        try:
            steps = round(math.ldexp(value, -self._exponent)) if isinstance(value, float) else None
        except (OverflowError, ValueError):  # huge, infinite or NaN
            steps = None
        if steps is None:
            steps = self._exact_steps(value)
        stream = self._stream
        return self._ask_first(steps) if stream is None else self._ask(stream, steps)

    @state_charges
    def _ask_first(self, steps: int) -> Any:
        """Charge the budget for the stream, and answer its first question."""
        return self._ask(self._opened(), steps)

    def _ask(self, stream: Stream, steps: int) -> Any:
        try:
            above = stream.ask(steps)
        except Exhausted:  # another thread had the last answer
            self._refuse()
        return self._answer(above)

    def _check_budget(self) -> None:
        # A budget that has just paid for this stream, in another thread, is not to refuse it.
        with self._lock:
            if self._stream is None:
                self._session().check()

    def _opened(self) -> Stream:
        """Return the stream, which is charged for when it is first asked for."""
        with self._lock:
            if self._stream is None:
                self._stream = self._session().open().stream(STREAM)
            return self._stream

    def _refuse(self) -> NoReturn:
        raise Exhausted(
            f"this {type(self).__name__} has given its {self.max_above} answer(s) above the threshold "
            "and is exhausted; make a new one (which costs a new guarantee)"
        )

    def stream(self, values: Iterable[Any]) -> Iterator[Any]:
        """Answer questions one at a time, up to and including the last answer above the threshold.

        Parameters
        ----------
        values : iterable of float
            Asked for one at a time: each value is taken after the answer before it was given, so a
            generator may choose its questions by the answers. Nothing is stored. Arrays are read in blocks.

        Yields
        ------
        The answers, as of `query`.
        """
        if self._left == 0:
            self._refuse()
        return self._answers(values)

    def _answers(self, values: Iterable[Any]) -> Iterator[Any]:
        items, array = iter(values), values
        if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "biuf":
            # By blocks, as the Python numbers that `query` is fast at.
            starts = range(0, array.size, _BLOCK)
            items = (value for start in starts for value in array[start : start + _BLOCK].tolist())
        for value in items:
            if self._left == 0:
                return
            yield self.query(value)
            if self._left == 0:
                return

    def probability(self, values: Any, answers: Any) -> float:
        """Return the exact probability of a sequence of answers, for a fresh stream: as private as the values.

        Parameters
        ----------
        values : array-like of shape (n_queries,)
        answers : array-like of bool, of shape (n_answers,), n_answers <= n_queries
            Whether each answer is above the threshold.

        Notes
        -----
        By quadrature over the noise of each threshold in turn, with an error of about 1e-12. It assumes
        continuous noise. Takes time in proportion to the square of the number of different values.
        """
        gaps = self._gaps(values)
        above = np.asarray(answers)
        if above.ndim != 1 or above.size > gaps.size or (above.size and above.dtype != bool):
            raise refuse("answers", allowed="one bool per value, or fewer")
        ends = np.flatnonzero(above).tolist()
        if len(ends) > self.max_above or (len(ends) == self.max_above and ends[-1] + 1 < above.size):
            return 0.0
        result, start = 1.0, 0
        for end in ends:
            result *= float(_compute_halting(gaps[start : end + 1], self._ratio)[end - start])
            start = end + 1
        return result * float(_compute_halting(gaps[start : above.size], self._ratio)[-1])

    def error_bound(self, beta: float, n_queries: int) -> float:
        """Return alpha such that the answers to ``n_queries`` questions are right within alpha.

        With probability 1 - ``beta``, until the stream ends, every answer above has a value of at least
        threshold - alpha, and every answer below a value of at most threshold + alpha. The stream does not
        end too soon if at most ``max_above`` values are at least threshold - alpha.

        Notes
        -----
        8 (log k + log(2 c/beta)) sensitivity/each: theorem 3.24 for c = 1, theorem 3.26 for c answers above.
        """
        beta = check_real("beta", beta, above=0, below=1)
        k = check_integer("n_queries", n_queries, at_least=1)
        log = math.log(k) + math.log(2 * self.max_above / beta)
        return 2 * self.query_scale * log + self._stage.spacing

    @property
    def _ratio(self) -> float:
        return self._stage.threshold_scale_steps / self._stage.question_scale_steps

    def _exact_steps(self, value: Any) -> int:
        array = exact_numbers("value", value)
        if array.size != 1 or not np.isfinite(floats_among(array)).all():
            raise refuse_data("value", allowed="a finite number")
        steps = attempt(lambda: int(exact_steps(array.ravel(), self._stage.spacing)[0]), TypeError)
        if steps is None:
            raise refuse_data("value", allowed="a finite number")
        return steps

    def _gaps(self, values: Any) -> NDArray[np.float64]:
        """Return the distance of the threshold above the values, in scales of a question's noise."""
        array = exact_numbers("values", values)
        if array.ndim != 1 or not np.isfinite(floats_among(array)).all():
            raise refuse_data("values", allowed="a 1-d array of finite numbers")
        if array.size == 0:
            return np.zeros(0)
        # In Python integers, which do not wrap; and cut before they become floats.
        far = math.ceil(_FAR * self._stage.question_scale_steps)
        gaps = [self._stage.threshold_steps - int(steps) for steps in exact_steps(array, self._stage.spacing)]
        return np.array([max(-far, min(far, gap)) for gap in gaps], dtype=np.float64) / self._stage.question_scale_steps

    def _answer(self, above: Above | None) -> Any:
        """Return the answer to a question: that it is above, or below."""
        return above is not None

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: two copies would cost twice")


def check_drawable(each: float, epsilon: float) -> None:
    """Refuse a cost of a threshold whose noise would leave exact arithmetic."""
    if not 1e-12 <= each <= 1e6:
        raise refuse("epsilon", given=epsilon, allowed="less extreme for exact noise")


class AboveThreshold(ThresholdStream):
    """Say which of a stream of questions is the first with a value above a threshold.

    However long the stream, it costs ``epsilon`` once.

    Parameters
    ----------
    threshold : float
        Public.
    epsilon : float
        Greater than 0; of the whole stream.
    sensitivity : float, default=1.0
        Largest change of any question's value between neighboring datasets.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The relation that ``sensitivity`` is for.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise; anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged for the whole stream at its first question, before noise is drawn.

    Attributes
    ----------
    guarantee : PrivacyGuarantee
        Guarantee of the whole stream.
    events : tuple of Event

    Notes
    -----
    Algorithm 1 and theorem 3.23 of the foundations text (docs/sources.md). Threshold noise has scale 2
    sensitivity/epsilon; fresh noise for every question has scale 4 sensitivity/epsilon. Accuracy is its theorem
    3.24. Only whether a noisy value is above is released; releasing the noisy value as well would not be private.

    **Limits.** It stops at the first answer above. Answers can be wrong for values within ``error_bound`` of the
    threshold. Values are not released.

    Examples
    --------
    >>> from dpstats.mechanisms import AboveThreshold
    >>> counts = [2, 5, 1, 80, 4]
    >>> list(AboveThreshold(40, epsilon=1, random_state=0).stream(counts))
    [False, False, False, True]
    >>> round(AboveThreshold(5, epsilon=1).probability([0], [True]), 10)
    0.1773223648
    """

    def __init__(
        self,
        threshold: float,
        epsilon: float,
        sensitivity: float = 1.0,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, _ = check_privacy_parameters(epsilon, 0.0)
        guarantee = PrivacyGuarantee(epsilon, neighbors=neighbors)
        stage = comparisons(threshold, sensitivity, epsilon, 1, guarantee)
        super().__init__(stage, threshold, sensitivity, guarantee, random_state, budget)

    def probabilities(self, values: Any) -> NDArray[np.float64]:
        """Return the exact distribution of the first answer above, which is as private as the values.

        Parameters
        ----------
        values : array-like of shape (n_queries,)

        Returns
        -------
        array of shape (n_queries + 1,)
            Entry i is the probability that question i is the first above; the last, that none is.
        """
        return _compute_halting(self._gaps(values), self._ratio)


class SparseVector(ThresholdStream):
    """Say which of a stream of questions have values above a threshold, up to ``max_above`` of them.

    Parameters
    ----------
    threshold : float
        Public.
    epsilon : float
        Greater than 0; of the whole stream.
    max_above : int
        The stream ends with this many answers above. However many are below, they are free.
    delta : float, default=0.0
        0 splits epsilon evenly over the answers above.
    sensitivity : float, default=1.0
        Largest change of any question's value between neighboring datasets.
    calibration : {"exact", "textbook"}, default="exact"
        With delta > 0: the smallest noise whose optimal total is (epsilon, delta), or the printed
        constants, refused where they are not private. With delta = 0 the two agree.
    neighbors, random_state, budget
        As for `AboveThreshold`.

    Notes
    -----
    Algorithm 2 and theorem 3.25 of the foundations text (docs/sources.md): `AboveThreshold` again and again, with a
    fresh noisy threshold after every answer above. Accuracy is its theorem 3.26.

    **Limits.** It stops after ``max_above`` answers above. Answers can be wrong for values within ``error_bound``
    of the threshold. Values are not released.

    Examples
    --------
    >>> from dpstats.mechanisms import SparseVector
    >>> counts = [2, 95, 1, 80, 4, 99]
    >>> sparse = SparseVector(40, epsilon=1, max_above=2, random_state=0)
    >>> list(sparse.stream(counts))
    [False, True, False, True]
    >>> sparse.query(99)
    Traceback (most recent call last):
        ...
    dpstats.errors.Exhausted: this SparseVector has given its 2 answer(s) above the threshold and is
    exhausted; \
make a new one (which costs a new guarantee)
    """

    def __init__(
        self,
        threshold: float,
        epsilon: float,
        *,
        max_above: int,
        delta: float = 0.0,
        sensitivity: float = 1.0,
        calibration: str = "exact",
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        c = check_integer("max_above", max_above, at_least=1)
        guarantee = PrivacyGuarantee(epsilon, delta, neighbors)
        printed = epsilon / (math.sqrt(8 * c * math.log(1 / delta)) if delta else c)

        def events(each: float) -> tuple[Event, ...]:
            return (Pure(each, neighbors=neighbors),) * c

        each = _calibrated(events, guarantee, printed, epsilon / c, calibration)
        stage = comparisons(threshold, sensitivity, each, c, guarantee)
        super().__init__(stage, threshold, sensitivity, guarantee, random_state, budget)


class NumericSparseVector(ThresholdStream):
    """Release the values of a stream of questions that are above a threshold, up to ``max_above`` of them.

    As `SparseVector`, but an answer above is the value with separate Laplace noise, and an answer below is
    None. The noise that was compared with the threshold must not be used again.

    Parameters
    ----------
    threshold, epsilon, max_above, delta, sensitivity, calibration, neighbors, random_state, budget
        As for `SparseVector`.

    Attributes
    ----------
    answer_scale : float
        Scale of the Laplace noise of a released value.

    Notes
    -----
    Algorithm 3 and theorem 3.27 of the foundations text (docs/sources.md), with the printed proportions. At delta = 0,
    the comparisons have 8/9 of epsilon and the values 1/9 (its 2/9 is halved by the scale). Accuracy is its theorem
    3.28.

    **Limits.** Answers stop after ``max_above`` values. Values below the threshold have no estimate.

    Examples
    --------
    >>> from dpstats.mechanisms import NumericSparseVector
    >>> sparse = NumericSparseVector(400, epsilon=1, max_above=2, random_state=0)
    >>> [answer and round(answer, 1) for answer in sparse.stream([2, 950, 1, 800, 4, 990])]
    [None, 948.2, None, 823.8]
    """

    def __init__(
        self,
        threshold: float,
        epsilon: float,
        *,
        max_above: int,
        delta: float = 0.0,
        sensitivity: float = 1.0,
        calibration: str = "exact",
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        c = check_integer("max_above", max_above, at_least=1)
        guarantee = PrivacyGuarantee(epsilon, delta, neighbors)
        # Printed: epsilon_1 and epsilon_2 in these proportions, each at delta/2; a value costs half its
        # share.
        root = math.sqrt(512)
        share = root / (root + 1) if delta else 8 / 9
        ratio = (1 - share) / share
        printed = share * epsilon / (math.sqrt(8 * c * math.log(2 / delta)) if delta else c)

        def events(each: float) -> tuple[Event, ...]:
            comparisons = (Pure(each, neighbors=neighbors),) * c
            value = DiscreteLaplace(2**30, 2**30 / (each * ratio), neighbors=neighbors)
            return comparisons + (value,) * c

        each = _calibrated(events, guarantee, printed, epsilon / c * share, calibration)
        stage = comparisons(threshold, sensitivity, each, c, guarantee, each * ratio)
        # Calibrated on a lattice of 2^30 steps. The lattice of the release differs, and is certified below.
        for margin in (1e-9, 1e-7, 1e-5, 1e-3):
            if covers(stage.events, guarantee):
                break
            each *= 1 - margin
            stage = comparisons(threshold, sensitivity, each, c, guarantee, each * ratio)
        else:
            if not covers(stage.events, guarantee):
                raise refuse("epsilon", got=str(guarantee), allowed="less extreme for exact noise")
        super().__init__(stage, threshold, sensitivity, guarantee, random_state, budget)

    @property
    def answer_scale(self) -> float:
        """Scale of the Laplace noise of a released value, in its units."""
        assert self._stage.answer_scale_steps is not None
        return self._stage.answer_scale_steps * self._stage.spacing

    def error_bound(self, beta: float, n_queries: int) -> float:
        """Return alpha such that answers are right within alpha, and so are the values released.

        As for `SparseVector`, both at beta/2: theorem 3.28, which for delta > 0 is printed too small for the
        values released (docs/errata.md).
        """
        beta = check_real("beta", beta, above=0, below=1)
        values = self.answer_scale * math.log(2 * self.max_above / beta) + self._stage.spacing
        return max(super().error_bound(beta / 2, n_queries), values)

    def confidence_interval(self, released: Any, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the value of a question that was answered, from the noise alone."""
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        half = self.answer_scale * math.log(1 / (1 - level))
        return ConfidenceInterval.around(released, half, level, estimand="the value before noise")

    def _answer(self, above: Above | None) -> float | None:
        """Return the value with its noise, or None for below."""
        return None if above is None else float(to_units(np.array([above.steps], dtype=object), self._stage.spacing)[0])


def _calibrated(events: Any, guarantee: PrivacyGuarantee, printed: float, even: float, calibration: str) -> float:
    """Return the cost of each noisy threshold: by the printed constants, or the largest private value."""
    check_choice("calibration", calibration, ["exact", "textbook"])
    check_drawable(even, guarantee.epsilon)
    even *= 1 - 2.0**-50
    if guarantee.delta == 0:
        return even
    if calibration == "exact":
        return largest_cost(events, guarantee, even)
    if not covers(events(printed), guarantee):
        raise NotPrivate(
            f"calibration='textbook' is not private at {guarantee}: the printed constants rest on advanced "
            "composition, which needs a smaller epsilon (docs/errata.md); use calibration='exact'"
        )
    return printed
