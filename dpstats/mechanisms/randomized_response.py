"""Randomized response: each person's own answer, kept or replaced at random.

Proof: docs/proofs/randomized-response.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betaincinv

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import array_of, as_int64, key_of
from dpstats.errors import refuse, refuse_data, state_charges
from dpstats.inference.error_distributions import BONFERRONI, ErrorDistribution, Estimated, Limits, Tail
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.reports import Printed
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import Responses
from dpstats.release.mechanism import Mechanism

_RESPONSES = "responses"


@dataclass(frozen=True, slots=True, eq=False)
class ProportionEstimate(HasEstimates, Printed):
    """Estimated proportions of the categories, from randomized responses.

    Attributes
    ----------
    proportions : ndarray of shape (n_categories,)
        Unbiased, so not necessarily inside [0, 1]; they add up to 1.
    standard_errors : ndarray of shape (n_categories,)
        Standard errors, from sampling and randomization together. None is 0: a count of
        none or all is moved by half a response.
    n_responses : int
    simulated : bool
        Whether the noise of the mechanism is simulated.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> survey = RandomizedResponse(1.0, random_state=0)
    >>> answers = np.repeat([0, 1], [700, 300])
    >>> estimate = survey.estimate(survey.randomize(answers))
    >>> estimate.proportions.round(2), estimate.standard_errors.round(3)
    (array([0.69, 0.31]), array([0.034, 0.034]))
    """

    proportions: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    n_responses: int
    errors: ErrorDistribution = field(repr=False)
    simulated: bool = False

    def estimates(self) -> Estimates:
        """Return the proportions of the population, inside [0, 1], with the exact distribution of their errors."""
        return Estimates(
            np.clip(self.proportions, 0.0, 1.0) + 0.0,
            self.standard_errors,
            tuple(map(str, range(self.proportions.size))),
            "the population proportions of the categories",
            self.errors,
            title="Private proportions from randomized responses",
            header="proportion",
            facts=[("Responses", f"{self.n_responses:,} (public)")],
            together=BONFERRONI,
            simulated=self.simulated,
        )


@dataclass(frozen=True, eq=False)
class _BinomialErrors(ErrorDistribution):
    """Errors of proportions by the exact tails of counts of responses.

    The count of category j is binomial, and a response is j with probability other + contrast * proportion.
    """

    counts: NDArray[np.int64]
    n: int
    other: float
    contrast: float

    @property
    def start(self) -> NDArray[np.float64]:
        return self._proportion(self.counts / self.n)

    @property
    def box(self) -> Limits:
        return np.zeros(self.counts.shape), np.ones(self.counts.shape)

    def _proportion(self, frequency: Any) -> NDArray[np.float64]:
        return np.asarray(np.clip((frequency - self.other) / self.contrast, 0.0, 1.0))

    def _frequency(self, proportion: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.clip(self.other + self.contrast * proportion, 0.0, 1.0))

    def limits(self, tail: Tail) -> Limits:
        # Clopper and Pearson (1934): the frequency at which this count, or a larger one, has probability tail.
        counts, n = self.counts, self.n
        with np.errstate(invalid="ignore"):
            low = np.where(counts == 0, 0.0, betaincinv(counts, n - counts + 1, tail))
            high = np.where(counts == n, 1.0, betaincinv(counts + 1, n - counts, 1 - np.asarray(tail)))
        return self._proportion(low), self._proportion(high)

    def tails(self, value: NDArray[np.float64]) -> Limits:
        frequency = self._frequency(value)
        return bdtr(self.counts, self.n, frequency), bdtrc(self.counts - 1.0, self.n, frequency)

    def statistic(self, estimates: Estimated, value: NDArray[np.float64]) -> NDArray[np.float64]:
        frequency = self._frequency(value)
        with np.errstate(all="ignore"):
            spread = np.sqrt(frequency * (1 - frequency) / self.n)
            return np.asarray((self.counts / self.n - frequency) / spread)


class RandomizedResponse(Mechanism):
    """Keep each answer with a known probability, and otherwise return another category at random.

    Parameters
    ----------
    epsilon : float
        At most 40, and large enough that an answer is kept more often than another is given in its place: at
        least about n_categories 2^-62. It is kept with probability e^epsilon/(e^epsilon + n_categories - 1).
    n_categories : int, default=2
        Answers are 0, 1, ..., n_categories - 1.
    random_state : None, int or numpy.random.Generator, default=None
        None draws from the operating system's entropy; anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every call of `randomize`.

    Attributes
    ----------
    keep_probability : float
        The exact probability of the sampler: a multiple of 2^-62.
    guarantee : PrivacyGuarantee
        Pure epsilon for one row (one person's answer) replaced. It holds in the local model too:
        every single response is epsilon-private, whoever collects them.
    event : Event

    Notes
    -----
    Warner (1965); section 3.2 of the foundations text (docs/sources.md), whose two coins are `from_coins`.

    **Limits.** The error falls with the square root of the number of answers: at the same epsilon, far more answers
    are needed than with a trusted party.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> survey = RandomizedResponse.from_coins(random_state=0)
    >>> round(survey.epsilon, 4)  # log 3
    1.0986
    >>> answers = np.repeat([0, 1], [7000, 3000])
    >>> result = survey.estimate(survey.randomize(answers))
    >>> result.proportions.round(2)
    array([0.7, 0.3])
    >>> low, high = result.confidence_interval()
    >>> bool(low[1] < 0.3 < high[1])
    True
    """

    def __init__(
        self, epsilon: float, n_categories: int = 2, *, random_state: Any = None, budget: PrivacyBudget | None = None
    ) -> None:
        epsilon = check_real("epsilon", epsilon, above=0)
        categories = check_integer("n_categories", n_categories, at_least=2, at_most=2**31)
        self._setup(epsilon, categories, 1.0, random_state, budget)

    @classmethod
    def from_keep_probability(
        cls,
        keep_probability: float,
        n_categories: int = 2,
        *,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> RandomizedResponse:
        """Return the mechanism that keeps an answer with this probability, in (1/n_categories, 1)."""
        categories = check_integer("n_categories", n_categories, at_least=2, at_most=2**31)
        keep = check_real("keep_probability", keep_probability, above=1 / categories, below=1)
        made = cls.__new__(cls)
        # Rounded up: the number stated is never below the truth.
        epsilon = math.log(keep * (categories - 1) / (1 - keep)) * (1 + 1e-12)
        made._setup(epsilon, categories, keep, random_state, budget)
        return made

    @classmethod
    def from_coins(cls, *, random_state: Any = None, budget: PrivacyBudget | None = None) -> RandomizedResponse:
        """Return the two coins of section 2.3 (docs/sources.md): heads, tell the truth; tails, answer by a second coin.

        An answer is kept with probability 3/4: epsilon = log 3.
        """
        return cls.from_keep_probability(0.75, random_state=random_state, budget=budget)

    def _setup(
        self, epsilon: float, categories: int, keep: float, random_state: Any, budget: PrivacyBudget | None
    ) -> None:
        Mechanism.__init__(self, PrivacyGuarantee(epsilon), random_state, budget)
        self._stage = Responses(_RESPONSES, categories, _private_grains(keep, categories, epsilon))
        self._plan = self._planned(self._stage)

    @property
    def n_categories(self) -> int:
        """Number of categories."""
        return self._stage.n_categories

    @property
    def plan(self) -> Plan:
        """The plan of one call of `randomize`, with its cost."""
        return self._plan

    @property
    def event(self) -> Event:
        """What an accountant sees: randomized response is the worst pure release, exactly."""
        return self.events[0]

    @property
    def keep_probability(self) -> float:
        """The probability that an answer is kept."""
        return self._stage.keep_probability

    @state_charges
    def randomize(self, values: Any) -> NDArray[np.int64]:
        """Return a randomized response for each answer: a release of all of them.

        Parameters
        ----------
        values : array-like of int or bool
            Answers in 0, ..., n_categories - 1, of any shape; private. Numbers equal to these, of any type,
            are answers too; anything else is refused, which shows that there was one.

        Returns
        -------
        int64 array of the same shape
        """
        plan = self._plan_about(values)
        self._check(plan)
        answers = self._check_values(values, "values")
        # The number of answers is public.
        with self._session(plan, shape=answers.shape) as session:
            responses = session.respond(_RESPONSES, answers.ravel())
        return responses.reshape(answers.shape)

    def probabilities(self, value: int) -> NDArray[np.float64]:
        """Return the exact probability of each response to an answer."""
        value = check_integer("value", value, at_least=0, at_most=self.n_categories - 1, of=type(value))
        result = np.full(self.n_categories, (1 - self.keep_probability) / (self.n_categories - 1))
        result[value] = self.keep_probability
        return result

    def estimate(self, responses: Any) -> ProportionEstimate:
        """Estimate the proportion of each category in the population from the responses alone.

        Parameters
        ----------
        responses : array-like of int
            What `randomize` returned, for answers of independent people.
        """
        given = self._check_values(responses, "responses").ravel()
        n = given.size
        counts = np.bincount(given, minlength=self.n_categories)
        other = (1 - self.keep_probability) / (self.n_categories - 1)
        # keep_probability - other, in integers: close to 1/n_categories the floats agree.
        k = self.n_categories
        contrast = (k * self._stage.keep_grains - Responses.GRAIN) / ((k - 1) * Responses.GRAIN)
        # A response is category j with probability other + contrast * pi_j, independently.
        # No standard deviation is 0: all or no responses count as half a response less or more.
        inside = np.clip(counts, 0.5, n - 0.5) / n
        spread = np.sqrt(inside * (1 - inside) / max(n - 1, 1))
        # A count beyond its mean for a proportion of 0 or 1 counts as this mean. Otherwise no value might be accepted.
        # The move rejects no value, as in `dpstats.means.moments.Score`.
        moved = np.clip(counts, math.floor(n * other), math.ceil(n * (other + contrast)))
        errors = _BinomialErrors(moved, n, other, contrast)
        proportions = (counts / n - other) / contrast
        return ProportionEstimate(proportions, spread / contrast, n, errors, self.guarantee.simulated)

    def _check_values(self, values: Any, name: str) -> NDArray[np.int64]:
        array = array_of(values).copy()  # checked and then used, and another process may write to the caller's
        typed = array.dtype.kind in "biu" or (
            array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.rint(array))))
        )
        if array.dtype.kind == "O":
            # Item by item: what an answer is depends on that answer alone.
            answers = [_answer(item, self.n_categories) for item in array.ravel()]
            typed = None not in answers
            array = np.array(answers if typed else [], dtype=np.int64).reshape(array.shape if typed else 0)
        if array.size == 0 or not typed:
            raise refuse_data(name, allowed="a non-empty array of integers or booleans")
        # As integers: a narrow float could not hold the number of categories.
        if int(array.min()) < 0 or int(array.max()) >= self.n_categories:
            raise refuse_data(name, allowed=f"in 0, ..., {self.n_categories - 1} (n_categories - 1)")
        return as_int64(array)


def _answer(item: Any, n_categories: int) -> int | None:
    """Return the answer that an item equals, -1 for another integer, or None for anything else."""
    kind, *rest = key_of(item) or ("nothing",)
    if kind != "number":
        return None
    number = rest[0]
    if not 0 <= number < n_categories:
        return -1
    return int(number) if number == int(number) else None


def _private_grains(keep: float, categories: int, epsilon: float) -> int:
    """Return the largest multiple of 1/2^62 (towards more privacy) up to ``keep`` whose odds are at most e^epsilon.

    The odds of the kept against another category are grains (k - 1)/(2^62 - grains). They are compared
    with a rational below e^epsilon, so that the guarantee holds exactly.
    """
    if epsilon > 40:
        raise refuse("epsilon", given=epsilon, allowed="at most 40 for randomized response")
    # The second is the larger one below 2^-25, and never below 1.
    bound = max(Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50)), 1 + Fraction(epsilon))
    # grains (k - 1) <= bound (2^62 - grains)
    largest = math.floor(bound * Responses.GRAIN / (bound + categories - 1))
    grains = min(largest, math.floor(Fraction(keep) * Responses.GRAIN))
    if grains * categories <= Responses.GRAIN:
        # Below 1/k the odds that matter are the others' against the kept.
        least = categories**2 / ((categories - 1) * Responses.GRAIN)
        raise refuse(
            "epsilon",
            given=epsilon,
            allowed=f"at least about {least:.3g} for randomized response with n_categories = {categories}",
            remedy="Keep probabilities are multiples of 2^-62, and none above 1/n_categories is private.",
        )
    return grains
