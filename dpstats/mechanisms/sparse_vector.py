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

from dpstats.errors import DPStatsError, Exhausted, InvalidData, InvalidParameter, NotPrivate
from dpstats.lattice import exact_steps
from dpstats.mechanisms.mechanism import Mechanism
from dpstats.mechanisms.quadrature import laplace_log_cumulative, laplace_log_density, pieces
from dpstats.mechanisms.sampling import check_scale
from dpstats.mechanisms.stages import quotient_up, to_units
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.calibration import largest_cost
from dpstats.privacy.events import DiscreteLaplace, Event, Pure
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.totals import covers
from dpstats.results import ConfidenceInterval
from dpstats.validation import (
    check_choice,
    check_integer,
    check_privacy_parameters,
    check_real,
    exact_numbers,
    floats_among,
)

_AHEAD = 4096  # noise drawn ahead of the questions, which costs a draw's setup once

# Gaps beyond this many scales of a question's noise are as good as infinite: e^-60.
_FAR = 60.0


class _Stream(Mechanism):
    """What the three share: a noisy threshold, fresh noise for every question, an end.

    ``each`` is what one noisy threshold costs, up to and including the answer above that ends it: its
    noise has scale 2 sensitivity/each and a question's 4 sensitivity/each. Values are rounded to a
    power-of-two lattice, 2^-40 of the threshold's noise or finer; that adds one step to their
    sensitivity, and the noise is calibrated to the enlarged one.
    """

    # Answers above that are left, and the noisy threshold, if it has been drawn.
    _state: tuple[int, int | None]
    _charged: bool

    # Sizes of the noise, in sensitivities over each: of the threshold and of a question.
    _threshold_factor, _question_factor = 2, 4

    def __init__(
        self,
        threshold: float,
        guarantee: PrivacyGuarantee,
        each: float,
        max_above: int,
        sensitivity: float,
        random_state: Any,
        budget: PrivacyBudget | None,
    ) -> None:
        self._threshold = check_real("threshold", threshold)
        self._sensitivity = check_real("sensitivity", sensitivity, at_least=1e-200, at_most=1e200)
        super().__init__(guarantee, random_state, budget)
        self._each = each
        self._max_above = max_above
        _check_drawable(each, guarantee.epsilon)
        nominal = 2 * self._sensitivity / each
        self._exponent = math.frexp(nominal)[1] - 1 - 40
        self._steps = math.ceil(Fraction(self._sensitivity) / Fraction(self._spacing)) + 1
        self._threshold_scale = check_scale(quotient_up(self._threshold_factor * self._steps, each))
        self._question_scale = check_scale(quotient_up(self._question_factor * self._steps, each))
        self._threshold_steps = int(exact_steps(np.array([self._threshold]), self._spacing)[0])
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._ahead: Iterator[int] = iter(())
        self._next_block = 1
        self._restart()

    @property
    def threshold(self) -> float:
        """The public threshold."""
        return self._threshold

    @property
    def sensitivity(self) -> float:
        """The largest change of a question's value between neighbouring datasets."""
        return self._sensitivity

    @property
    def max_above(self) -> int:
        """How many answers above the threshold there can be."""
        return self._max_above

    @property
    def n_above(self) -> int:
        """How many there have been."""
        return self._max_above - self._state[0]

    @property
    def threshold_scale(self) -> float:
        """Scale of the threshold's Laplace noise, in the units of the values."""
        return self._threshold_scale * self._spacing

    @property
    def query_scale(self) -> float:
        """Scale of a question's Laplace noise, in the units of the values."""
        return self._question_scale * self._spacing

    @property
    def events(self) -> tuple[Event, ...]:
        """What an accountant sees of a whole stream, however long: one release per answer above."""
        return (Pure(self._each, neighbors=self.guarantee.neighbors),) * self._max_above

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
        # Before the lock, which another thread of the parent may have held at the fork.
        if os.getpid() != self._process:
            raise DPStatsError("a stream belongs to the process that made it: two copies would cost twice")
        if self._state[0] == 0:
            self._refuse()
        if not self._charged and self._budget is not None:
            self._can_pay(*self.events)
        # The fast way out for floats: exact, since the lattice is a power of two.
        try:
            steps = round(math.ldexp(value, -self._exponent)) if isinstance(value, float) else None
        except (OverflowError, ValueError):  # huge, infinite or NaN
            steps = None
        if steps is None:
            steps = self._exact_steps(value)
        with self._lock:
            left, noisy_threshold = self._state
            if left == 0:
                self._refuse()
            if not self._charged:
                if self._budget is not None:
                    self._pay(*self.events)
                self._charged = True
            if noisy_threshold is None:
                noise = self._source.laplace(self._threshold_scale, 1)
                noisy_threshold = self._threshold_steps + int(noise[0])
                self._state = (left, noisy_threshold)
            drawn = next(self._ahead, None)
            if drawn is None:
                drawn = self._draw_ahead()
            if steps + drawn < noisy_threshold:
                return self._below()
            # One assignment: wherever this is interrupted, a threshold that was passed is never used again.
            self._state = (left - 1, None)
            return self._above(steps, drawn)

    def _refuse(self) -> NoReturn:
        raise Exhausted(
            f"this {type(self).__name__} has given its {self._max_above} answer(s) above the threshold "
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
        if self._state[0] == 0:
            self._refuse()
        return self._answers(values)

    def _answers(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in _items(values):
            if self._state[0] == 0:
                return
            yield self.query(value)
            if self._state[0] == 0:
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
        By quadrature over the noise of each threshold in turn, right to about 1e-12. For continuous noise.
        Takes time in proportion to the square of the number of different values.
        """
        gaps = self._gaps(values)
        above = np.asarray(answers)
        if above.ndim != 1 or above.size > gaps.size or (above.size and above.dtype != bool):
            raise InvalidParameter("answers must be one bool per value, or fewer")
        ends = np.flatnonzero(above).tolist()
        if len(ends) > self._max_above or (len(ends) == self._max_above and ends[-1] + 1 < above.size):
            return 0.0
        result, start = 1.0, 0
        for end in ends:
            result *= float(_halting_law(gaps[start : end + 1], self._ratio)[end - start])
            start = end + 1
        return result * float(_halting_law(gaps[start : above.size], self._ratio)[-1])

    def error_bound(self, beta: float, n_queries: int) -> float:
        """Return alpha such that the answers to ``n_queries`` questions are right within alpha.

        But for probability ``beta``: every answer above is for a value of at least threshold - alpha, and
        every one below for a value of at most threshold + alpha, as long as the stream has not ended. It
        does not end too soon if at most ``max_above`` values are at least threshold - alpha.

        Notes
        -----
        8 (log k + log(2 c/beta)) sensitivity/each: theorem 3.24 for c = 1, theorem 3.26 for c answers above.
        """
        beta = check_real("beta", beta, above=0, below=1)
        k = check_integer("n_queries", n_queries, at_least=1)
        log = math.log(k) + math.log(2 * self._max_above / beta)
        return 2 * self.query_scale * log + self._spacing

    @property
    def _spacing(self) -> float:
        return 2.0**self._exponent

    @property
    def _ratio(self) -> float:
        return self._threshold_scale / self._question_scale

    def _restart(self) -> None:
        """Begin a stream, which is a release of its own."""
        self._state = (self._max_above, None)
        self._charged = False

    def _draw_ahead(self) -> int:
        # Few at first, so that a short stream of exact noise is not slow.
        block = self._source.laplace(self._question_scale, self._next_block)
        self._next_block = min(8 * self._next_block, _AHEAD)
        self._ahead = iter(block.tolist())
        return next(self._ahead)

    def _exact_steps(self, value: Any) -> int:
        array = exact_numbers("value", value)
        if array.size != 1 or not np.isfinite(floats_among(array)).all():
            raise InvalidData("value must be a finite number")
        try:
            return int(exact_steps(array.ravel(), self._spacing)[0])
        except TypeError:
            raise InvalidData("value must be a finite number") from None

    def _gaps(self, values: Any) -> NDArray[np.float64]:
        """Return how far the threshold is above the values, in scales of a question's noise."""
        array = exact_numbers("values", values)
        if array.ndim != 1 or not np.isfinite(floats_among(array)).all():
            raise InvalidData("values must be a 1-d array of finite numbers")
        if array.size == 0:
            return np.zeros(0)
        # In Python integers, which do not wrap; and cut before they become floats.
        far = math.ceil(_FAR * self._question_scale)
        gaps = [self._threshold_steps - int(steps) for steps in exact_steps(array, self._spacing)]
        return np.array([max(-far, min(far, gap)) for gap in gaps], dtype=np.float64) / self._question_scale

    def _below(self) -> Any:
        return False

    def _above(self, steps: int, drawn: int) -> Any:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: two copies would cost twice")


class AboveThreshold(_Stream):
    """Say which of a stream of questions is the first with a value above a threshold.

    However long the stream, it costs ``epsilon`` once.

    Parameters
    ----------
    threshold : float
        Public.
    epsilon : float
        Greater than 0; of the whole stream.
    sensitivity : float, default=1.0
        Largest change of any question's value between neighbouring datasets.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The relation that ``sensitivity`` is for.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise; anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged for the whole stream at its first question, before noise is drawn.

    Attributes
    ----------
    guarantee : PrivacyGuarantee
        Of the whole stream.
    events : tuple of Event

    Notes
    -----
    Algorithm 1 and theorem 3.23 of the foundations text: threshold noise of scale 2 sensitivity/epsilon, and
    fresh noise of scale 4 sensitivity/epsilon for every question. Accuracy is its theorem 3.24. Only whether
    a noisy value is above is released; releasing the noisy value as well would not be private.

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
        super().__init__(threshold, guarantee, epsilon, 1, sensitivity, random_state, budget)

    def probabilities(self, values: Any) -> NDArray[np.float64]:
        """Return the exact law of the first answer above: as private as the values.

        Parameters
        ----------
        values : array-like of shape (n_queries,)

        Returns
        -------
        array of shape (n_queries + 1,)
            Entry i is the probability that question i is the first above; the last, that none is.
        """
        return _halting_law(self._gaps(values), self._ratio)


class SparseVector(_Stream):
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
        Largest change of any question's value between neighbouring datasets.
    calibration : {"exact", "textbook"}, default="exact"
        With delta > 0: the smallest noise whose optimal total is (epsilon, delta), or the printed
        constants, refused where they are not private. With delta = 0 the two agree.
    neighbors, random_state, budget
        As for `AboveThreshold`.

    Notes
    -----
    Algorithm 2 and theorem 3.25 of the foundations text: `AboveThreshold` again and again, with a fresh noisy
    threshold after every answer above. Accuracy is its theorem 3.26.

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
    dpstats.errors.Exhausted: this SparseVector has given its 2 answer(s) above the threshold and is exhausted; \
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
        super().__init__(threshold, guarantee, each, c, sensitivity, random_state, budget)


class NumericSparseVector(_Stream):
    """Answer those of a stream of questions whose values are above a threshold, up to ``max_above`` of them.

    As `SparseVector`, but an answer above is the value with Laplace noise of its own (the noise that
    was compared with the threshold must not be used again), and one below is None.

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
    Algorithm 3 and theorem 3.27 of the foundations text, with the printed proportions: at delta = 0, 8/9 of
    epsilon for the comparisons and 1/9 for the values (its 2/9 is halved by the scale). Accuracy is its
    theorem 3.28.

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
        # Printed: epsilon_1 and epsilon_2 in these proportions, each at delta/2; a value costs half its share.
        root = math.sqrt(512)
        share = root / (root + 1) if delta else 8 / 9
        ratio = (1 - share) / share
        printed = share * epsilon / (math.sqrt(8 * c * math.log(2 / delta)) if delta else c)

        def events(each: float) -> tuple[Event, ...]:
            comparisons = (Pure(each, neighbors=neighbors),) * c
            value = DiscreteLaplace(2**30, 2**30 / (each * ratio), neighbors=neighbors)
            return comparisons + (value,) * c

        each = _calibrated(events, guarantee, printed, epsilon / c * share, calibration)
        super().__init__(threshold, guarantee, each, c, sensitivity, random_state, budget)
        self._answer_scale = check_scale(quotient_up(self._steps, each * ratio))
        # Calibrated on a lattice of 2^30 steps; the one of the release has others, and is what counts.
        for margin in (1e-9, 1e-7, 1e-5, 1e-3):
            if covers(self.events, guarantee):
                return
            each *= 1 - margin
            super().__init__(threshold, guarantee, each, c, sensitivity, random_state, budget)
            self._answer_scale = check_scale(quotient_up(self._steps, each * ratio))
        if not covers(self.events, guarantee):
            raise InvalidParameter(f"epsilon and delta are too extreme for exact noise, got {guarantee}")

    @property
    def answer_scale(self) -> float:
        """Scale of the Laplace noise of a released value, in its units."""
        return self._answer_scale * self._spacing

    @property
    def events(self) -> tuple[Event, ...]:
        """What an accountant sees of a whole stream: the comparisons, and the values released."""
        value = DiscreteLaplace(self._steps, self._answer_scale, neighbors=self.guarantee.neighbors)
        return super().events + (value,) * self._max_above

    def error_bound(self, beta: float, n_queries: int) -> float:
        """Return alpha such that answers are right within alpha, and so are the values released.

        As for `SparseVector`, both at beta/2: theorem 3.28, which for delta > 0 is printed too small for the
        values released (docs/errata.md).
        """
        beta = check_real("beta", beta, above=0, below=1)
        values = self.answer_scale * math.log(2 * self._max_above / beta) + self._spacing
        return max(super().error_bound(beta / 2, n_queries), values)

    def confidence_interval(self, released: Any, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the value of a question that was answered, from the noise alone."""
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        half = self.answer_scale * math.log(1 / (1 - level))
        return ConfidenceInterval.around(released, half, level, estimand="the value before noise")

    def _below(self) -> None:
        return None

    def _above(self, steps: int, drawn: int) -> float:
        fresh = int(self._source.laplace(self._answer_scale, 1)[0])
        return float(to_units(np.array([steps + fresh], dtype=object), Fraction(self._spacing))[0])


def _calibrated(
    events: Any, guarantee: PrivacyGuarantee, printed: float, even: float, calibration: str
) -> float:
    """Return what each noisy threshold may cost: by the printed constants, or the most that is private."""
    check_choice("calibration", calibration, ["exact", "textbook"])
    _check_drawable(even, guarantee.epsilon)
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


def _check_drawable(each: float, epsilon: float) -> None:
    if not 1e-12 <= each <= 1e6:
        raise InvalidParameter(f"epsilon is too extreme for exact noise, got {epsilon:g}")


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """Go through values one at a time; arrays by blocks, as the Python numbers that `query` is fast at."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        for start in range(0, values.size, _AHEAD):
            yield from values[start : start + _AHEAD].tolist()
    else:
        yield from values


def _halting_law(gaps: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
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
    return np.clip(result, 0.0, 1.0)
