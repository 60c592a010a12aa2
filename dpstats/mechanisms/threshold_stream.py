"""A stream of questions: a noisy threshold, fresh noise for every question, and an end.

Proof: docs/proofs/sparse-vector.md.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.data.numbers import exact_numbers, floats_among
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import DPStatsError, Exhausted, InvalidData, InvalidParameter
from dpstats.lattice import exact_steps
from dpstats.mechanisms.quadrature import FAR, halting_law
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event, Pure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.release.additive import quotient_up
from dpstats.release.mechanism import Mechanism
from dpstats.release.noise import check_scale

_AHEAD = 4096  # noise drawn ahead of the questions, which costs a draw's setup once


class ThresholdStream(Mechanism, ABC):
    """Base of the sparse vector classes: a noisy threshold, fresh noise for every question, an end.

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
        check_drawable(each, guarantee.epsilon)
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
            result *= float(halting_law(gaps[start : end + 1], self._ratio)[end - start])
            start = end + 1
        return result * float(halting_law(gaps[start : above.size], self._ratio)[-1])

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
        far = math.ceil(FAR * self._question_scale)
        gaps = [self._threshold_steps - int(steps) for steps in exact_steps(array, self._spacing)]
        return np.array([max(-far, min(far, gap)) for gap in gaps], dtype=np.float64) / self._question_scale

    @abstractmethod
    def _below(self) -> Any:
        """Return the answer to a question that is below the threshold."""

    @abstractmethod
    def _above(self, steps: int, drawn: int) -> Any:
        """Return the answer to one that is above; ``drawn`` is the noise it was compared with."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: two copies would cost twice")


def check_drawable(each: float, epsilon: float) -> None:
    """Refuse a cost of a threshold whose noise would leave exact arithmetic."""
    if not 1e-12 <= each <= 1e6:
        raise InvalidParameter(f"epsilon is too extreme for exact noise, got {epsilon:g}")


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """Go through values one at a time; arrays by blocks, as the Python numbers that `query` is fast at."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        for start in range(0, values.size, _AHEAD):
            yield from values[start : start + _AHEAD].tolist()
    else:
        yield from values
