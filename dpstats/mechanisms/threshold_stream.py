"""A stream of questions: a noisy threshold, new noise for every question, and a limit.

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

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import exact_numbers, floats_among
from dpstats.errors import DPStatsError, Exhausted, attempt, refuse, refuse_data
from dpstats.lattice import exact_steps
from dpstats.mechanisms.quadrature import FAR, halting_law
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Comparisons
from dpstats.release.charges import state_charges
from dpstats.release.mechanism import Mechanism
from dpstats.release.noise import check_scale
from dpstats.release.stream import Above, Stream

_BLOCK = 4096  # values of an array that become Python numbers at once


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


class ThresholdStream(Mechanism, ABC):
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
        if os.getpid() != self._process:
            raise DPStatsError("a stream belongs to the process that made it: two copies would cost twice")
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
        return self._below() if above is None else self._above(above)

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
            result *= float(halting_law(gaps[start : end + 1], self._ratio)[end - start])
            start = end + 1
        return result * float(halting_law(gaps[start : above.size], self._ratio)[-1])

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
        far = math.ceil(FAR * self._stage.question_scale_steps)
        gaps = [self._stage.threshold_steps - int(steps) for steps in exact_steps(array, self._stage.spacing)]
        return (
            np.array([max(-far, min(far, gap)) for gap in gaps], dtype=np.float64)
            / self._stage.question_scale_steps
        )

    @abstractmethod
    def _below(self) -> Any:
        """Return the answer to a question that is below the threshold."""

    @abstractmethod
    def _above(self, answer: Above) -> Any:
        """Return the answer to one that is above."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: two copies would cost twice")


def check_drawable(each: float, epsilon: float) -> None:
    """Refuse a cost of a threshold whose noise would leave exact arithmetic."""
    if not 1e-12 <= each <= 1e6:
        raise refuse("epsilon", given=epsilon, allowed="less extreme for exact noise")
