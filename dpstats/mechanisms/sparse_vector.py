"""The sparse vector technique: a stream of questions, paid for by the answers above a threshold.

Proof: docs/proofs/sparse-vector.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.errors import NotPrivate, refuse
from dpstats.mechanisms.quadrature import halting_law
from dpstats.mechanisms.threshold_stream import ThresholdStream, check_drawable, comparisons
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.calibration import largest_cost
from dpstats.privacy.events import DiscreteLaplace, Event, Pure
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.totals import covers
from dpstats.release.session import to_units
from dpstats.release.stream import Above
from dpstats.results import ConfidenceInterval


class _YesOrNo(ThresholdStream):
    """A stream whose answers say no more than whether a value was above."""

    def _below(self) -> bool:
        return False

    def _above(self, answer: Above) -> bool:
        return True


class AboveThreshold(_YesOrNo):
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
        return halting_law(self._gaps(values), self._ratio)


class SparseVector(_YesOrNo):
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
    Algorithm 3 and theorem 3.27 of the foundations text, with the printed proportions. At delta = 0, the
    comparisons have 8/9 of epsilon and the values 1/9 (its 2/9 is halved by the scale). Accuracy is its
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

    def _below(self) -> None:
        return None

    def _above(self, answer: Above) -> float:
        return float(to_units(np.array([answer.steps], dtype=object), self._stage.spacing)[0])


def _calibrated(
    events: Any, guarantee: PrivacyGuarantee, printed: float, even: float, calibration: str
) -> float:
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
